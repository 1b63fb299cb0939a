"""State of a training run: model, optimizer and progress."""

import functools
import logging
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qcnn import data
from qcnn.errors import TrainingError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.requirements import STRATEGIES
from qcnn.model import checkpoints
from qcnn.model.batches import Shards, shard, shard_by_qubit
from qcnn.model.checkpoints import Checkpoint, InitializationRun
from qcnn.model.constant_readouts import constant_readouts
from qcnn.model.history import (
    EpochMetrics,
    Progress,
    epochs_left,
    history_columns,
    initializations,
    is_complete,
    is_undecided,
    trial_epochs,
)
from qcnn.model.history_file import HISTORY, History, HistoryFile, trial_file
from qcnn.model.network import initial_weights
from qcnn.model.optimizer import assign, values_of
from qcnn.model.steps import Measures
from qcnn.results.serving import fresh_mse
from qcnn.simulators.structure.gates import fingerprint, fingerprint_of
from qcnn.trainer.programs import CompiledFunctions
from qcnn.trainer.tensorboard import BatchProfiler

logger = logging.getLogger("qcnn")


class TrainingState:
    """State of a training run with its compiled epochs.

    Args:
        config: Experiment.
        dataset: Dataset of the experiment.
        folder: Training folder to write, or None in processes other than the chief.
        strategy: Strategy of the process.
        saved: Checkpoint to resume from, or None.
        programs: Cache of compiled functions.

    Raises:
        ArtifactError: If the weights of the checkpoint are those of another model, or the chief's history file is
            missing or damaged.
    """

    def __init__(
        self,
        config: ExperimentConfig,
        dataset: data.Dataset,
        folder: Path | None,
        strategy: tf.distribute.Strategy,
        saved: Checkpoint | None,
        programs: CompiledFunctions | None = None,
    ) -> None:
        self.config, self.dataset, self._folder = config, dataset, folder
        # Number of updates per epoch.
        self.updates = config.updates(len(dataset.train))
        self._program = (programs or CompiledFunctions()).program(config, strategy, config.epochs * self.updates)
        self.model, self.optimizer = self._program.model, self._program.optimizer
        self._circuit = fingerprint_of(config.model, self.model.get_layer("quantum").simulator.network)
        # Epochs of the current initialization.
        self.progress = Progress()
        self.best_weights: tuple[npt.NDArray[np.float64], ...] = ()
        # As in `Checkpoint`.
        self.tried, self._passed = 0, 0
        self._leader: InitializationRun | None = None
        self._is_stopped = False
        if saved:
            self.tried, self._leader, self._passed = saved.tried, saved.leader, saved.passed
            self._restore(saved.line)
            logger.info("continuing after epoch %d", saved.passed)
        else:
            self._open_history(())
        self._compiled = False
        self._replicas = self._program.replicas
        self._validation = self.make_shards(dataset.validation, self._replicas)

    @property
    def steps(self) -> int:
        """Number of updates of the current initialization."""
        return self.progress.epochs * self.updates

    @property
    def samples(self) -> int:
        """Number of training samples of an epoch."""
        return min(len(self.dataset.train), self.updates * self.config.batch_size)

    @property
    def is_undecided(self) -> bool:
        """Whether the current initialization is being tried."""
        return is_undecided(self.config, self.tried, has_leader=self._leader is not None)

    @property
    def initializations(self) -> int:
        """Number of initializations to try, at least that of an earlier version that the checkpoint is from."""
        return max(initializations(self.config), self.tried + self.is_undecided)

    @property
    def epochs_left(self) -> int:
        """Remaining epochs over all initializations."""
        return epochs_left(self.config, self.progress.epochs, self.tried, has_leader=self._leader is not None)

    @property
    def is_complete(self) -> bool:
        """Whether training is complete."""
        return self._is_stopped or is_complete(self.progress, self.config, undecided=self.is_undecided)

    @property
    def history(self) -> tuple[EpochMetrics, ...]:
        """Epochs of the current initialization from the history file, empty in processes other than the chief.

        Raises:
            ArtifactError: If the file cannot be written or was changed.
        """
        return self._history.store().epochs() if self._history else ()

    @property
    def has_begun(self) -> bool:
        """Whether an epoch has been trained, by this process or before."""
        return self._passed > 0

    @functools.cached_property
    def constant_readouts(self) -> tuple[int | str, ...]:
        """Names of the readouts that are equal for all samples."""
        return constant_readouts(self.model, self.dataset.train, self.config.batch_size)

    def is_constant(self) -> bool:
        """Return whether all readouts are equal for all samples."""
        return len(self.constant_readouts) == len(self.readouts)

    @property
    def readouts(self) -> tuple[int | str, ...]:
        """Names of all readouts."""
        readouts: tuple[int | str, ...] = self.model.get_layer("quantum").simulator.network.head_inputs
        return readouts

    def epoch(self, profile: BatchProfiler) -> tuple[EpochMetrics, Measures]:
        """Train and validate an epoch, and return its metrics and the measures of its updates, (steps, 3)."""
        start = time.perf_counter()
        number = self.progress.epochs + 1
        order = data.epoch_order(self.config.seed, number, len(self.dataset.train))[: self.samples]
        batches = self.make_shards(self.dataset.train.take(order), self._replicas)
        batches, validation = (
            self._with_shots("train", batches, number),
            self._with_shots("validation", self._validation, number),
        )
        if not self._compiled:
            self._program.compile(batches, validation)
            self._compiled = True
        measures = profile.run(self._program.train, batches, self._passed * self.updates)
        train_loss, train_accuracy = _mean(measures, batches, number, "training")
        val_loss, val_accuracy = _mean(self._program.validate(validation), validation, number, "validation")
        seconds = time.perf_counter() - start
        if self.dataset.layout.is_regression:
            train_accuracy = val_accuracy = None
        losses = train_loss, train_accuracy, val_loss, val_accuracy
        epoch = EpochMetrics(number, *losses, seconds, *_staleness(measures))
        self.progress = self.progress.after(epoch)
        if self._history:
            self._history.add(epoch)
        self._passed += 1
        if self.config.options.export_checkpoint != "last" and self.progress.best is epoch:
            self.best_weights = values_of(self.model.trainable_variables)
        return epoch, measures

    def go_on(self) -> None:
        """Start the next initialization if the current one has been tried.

        After all of them, continue with the one with the lowest validation loss.
        """
        if not self.is_undecided or self.progress.epochs < trial_epochs(self.config):
            return
        if self._leader is None or self.progress.lowest_val_loss < self._leader.progress.lowest_val_loss:
            self._leader = self._line()
        logger.info(
            "initialization %d of %d: val_loss %.4f after %d epochs",
            *(
                self.tried + 1,
                self.initializations,
                self.progress.lowest_val_loss,
                self.progress.epochs,
            ),
        )
        self.tried += 1
        if self.tried < initializations(self.config):
            weights = initial_weights(self.model, self.config, self.tried)
            self._restore(InitializationRun(Progress(), weights, self._program.fresh_optimizer))
        else:
            leader, self._leader = self._leader, None
            self._restore(leader)

    def stop(self) -> None:
        """Complete training after the last epoch."""
        self._is_stopped = True

    def _line(self) -> InitializationRun:
        weights, optimizer = values_of(self.model.trainable_variables), values_of(self.optimizer.variables)
        history = self._history.store() if self._history else ()
        return InitializationRun(self.progress, weights, optimizer, self.best_weights, history)

    def _restore(self, line: InitializationRun) -> None:
        assign(self.model.trainable_variables, line.weights)
        assign(self.optimizer.variables, line.optimizer)
        self.progress, self.best_weights = line.progress, line.best_weights
        self._open_history(line.history)

    def _open_history(self, history: History) -> None:
        tried = self.tried + 1 if self.is_undecided else None
        self._history = open_history(self.config, self.dataset, self._folder, history, tried) if self._folder else None

    def make_shards(self, samples: data.Samples, replicas: int) -> Shards:
        """Split samples into batches and shards, by qubit if that is faster, else by sample."""
        size, simulator = self.config.batch_size, self.model.get_layer("quantum").simulator
        if not self.config.options.shots and simulator.shards_by_qubit(min(size, len(samples)), replicas):
            return shard_by_qubit(samples, size, replicas, self.config.qubits)
        return shard(samples, size, replicas)

    def _with_shots(self, split: str, shards: Shards, epoch: int) -> Shards:
        """Return the shards with seeds for their shots in this epoch, or unchanged for exact readouts."""
        shots = self.config.options.shots
        if not shots:
            return shards
        return shards.sampled(shots, data.shot_seeds(split, self.config.seed, epoch, len(shards.sizes)))

    def save(self) -> None:
        """Append to the history file and write a checkpoint.

        Its size does not depend on the number of epochs. For a complete training run, it includes `fresh_mse` of the
        exported weights.
        """
        assert self._folder
        exported = self.best_weights if self.config.options.export_checkpoint != "last" else None
        checkpoint = Checkpoint(
            config=self.config,
            dataset_digest=self.dataset.digest,
            circuit=self._circuit,
            line=self._line(),
            tried=self.tried,
            leader=self._leader,
            passed=self._passed,
            simulator=self.model.get_layer("quantum").simulator.name,
            fresh_mse=fresh_mse(self.model, self.config, exported) if self.is_complete else None,
            is_stopped=self._is_stopped,
            layout=self.dataset.layout,
            source=self.dataset.source,
        )
        checkpoints.save(checkpoint, self._folder / checkpoints.FOLDER)


def open_history(
    config: ExperimentConfig, dataset: data.Dataset, folder: Path, history: History, initialization: int | None = None
) -> HistoryFile:
    """Return the history file of the current initialization, with the epochs of a checkpoint only.

    Args:
        config: Experiment to train.
        dataset: Dataset to train on.
        folder: Training folder.
        history: Epochs of the checkpoint.
        initialization: Number of the initialization that is being tried, from 1, or None after the search.

    Raises:
        ArtifactError: If the epochs are in a file that is missing or damaged, or the file cannot be written.
    """
    is_synchronous = STRATEGIES[config.strategy].is_synchronous
    columns = history_columns(has_accuracy=not dataset.layout.is_regression, has_staleness=not is_synchronous)
    name = trial_file(initialization) if initialization else HISTORY
    return HistoryFile(folder / name, columns, history)


def load_saved(config: ExperimentConfig, dataset: data.Dataset, folder: Path) -> Checkpoint | None:
    """Return the checkpoint from which training in a folder resumes, or None.

    Args:
        config: Experiment to train.
        dataset: Dataset to train on.
        folder: Folder of the checkpoints.

    Raises:
        ArtifactError: If the checkpoint is of another experiment or damaged.
    """
    saved = checkpoints.load_latest(folder)
    if saved:
        checkpoints.check_continues(saved, config, dataset.digest, fingerprint(config.model, config.qubits))
    return saved


def _staleness(measures: Measures) -> tuple[float, int]:
    """Return mean and maximum staleness of updates, 0 for synchronous replicas."""
    behind = measures[:, 3] if measures.shape[1] > 3 else np.zeros(1)
    return float(behind.mean()), int(behind.max())


def _mean(measures: Measures, shards: Shards, epoch: int, what: str) -> tuple[float, float | None]:
    """Return mean loss and accuracy over all samples, or raise TrainingError if the loss is not finite."""
    invalid = np.flatnonzero(~np.isfinite(measures[:, 0]))
    if len(invalid):
        raise TrainingError(
            f"the {what} loss is no longer finite at epoch {epoch}, step {invalid[0] + 1}; a smaller learning_rate may "
            f"help. Given: loss {measures[invalid[0], 0]}"
        )
    loss, accuracy = shards.sizes @ measures[:, :2] / shards.sizes.sum()
    return float(loss), float(accuracy)
