"""Training: exact over any number of workers, and continued where it stopped."""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from qcnn import data
from qcnn.atomic_files import exclusive_lock
from qcnn.errors import RetryableError
from qcnn.experiment import ExperimentConfig
from qcnn.model import checkpoints
from qcnn.model.checkpoints import Checkpoint
from qcnn.model.history import HISTORY, EpochMetrics, epoch_seconds, epochs_left, is_complete, plateau, save_history
from qcnn.model.steps import same_everywhere
from qcnn.planning.training_estimate import expectation
from qcnn.requirements import STRATEGIES
from qcnn.simulators.registry import NOISE_MAX_QUBITS
from qcnn.simulators.structure.shift_rules import with_shift_rule
from qcnn.startup import start_compiler
from qcnn.trainer.distribution.joining import exit_barrier, taken_address, translate_peer_errors
from qcnn.trainer.distribution.roles import ClusterConfig, check_roles
from qcnn.trainer.distribution.strategies import create_strategy
from qcnn.trainer.events import Listener, ignore
from qcnn.trainer.programs import CompiledFunctions
from qcnn.trainer.state import TrainingState, load_saved
from qcnn.trainer.tensorboard import BatchProfiler, TensorBoardWriter, batch_profile, event_log

logger = logging.getLogger("qcnn")


def train(
    config: ExperimentConfig,
    dataset: data.Dataset,
    workdir: Path,
    *,
    logs: Path | None = None,
    cluster: ClusterConfig | None = None,
    listener: Listener = ignore,
    observer: Listener = ignore,
    publish: Callable[[], None] = lambda: None,
    programs: CompiledFunctions | None = None,
) -> tuple[EpochMetrics, ...]:
    """Train to `config.epochs` and return every epoch's losses; a folder with a checkpoint is continued.

    The chief alone writes: `checkpoints/` and `history.csv` in `workdir`, TensorBoard events in `logs`
    (default `workdir/logs`). Other workers read the chief's checkpoint from the same folder and write nothing.
    The chief tells `listener` of the epochs that count; every process tells its `observer` of each epoch that it has
    trained, and the chief of each checkpoint too. When everything is written the chief calls `publish`, and no process
    ends before that has returned. Trainings of one process that share `programs` compile what they have in common once;
    none of their numbers depends on it.

    Raises:
        ArtifactError: the folder holds another experiment's checkpoint, is in use, or cannot be written.
        ConfigError: the cluster is not the experiment's.
        RetryableError: another process of the training was lost.
        TrainingError: the loss is no longer finite.

    >>> from pathlib import Path
    >>> from qcnn import data
    >>> from qcnn.experiment_io import from_mapping
    >>> config = from_mapping({"qubits": 4, "rounds": 10, "epochs": 2, "strategy": "none", "workers": 1})
    >>> history = train(config, data.generate(config), Path("training"))
    >>> [epoch.epoch for epoch in history]
    [1, 2]
    """
    check_roles(config, cluster)
    data.check_fits(dataset, config)
    is_chief = cluster is None or cluster.is_chief
    folder = workdir / checkpoints.FOLDER
    # Before the others can join: they must not read a checkpoint that an older chief still replaces.
    with exclusive_lock(workdir) if is_chief else contextlib.nullcontext():
        saved = load_saved(config, dataset, folder)
        if saved and is_complete(saved.history, config, saved.tried):
            # The others are not waited for: they may have ended before this process was lost.
            if is_chief:
                save_history(saved.history, workdir / HISTORY)
            listener("state", state="done")
            return saved.history
        listener("state", state="waiting for the others" if cluster else "starting")
        programs = programs or CompiledFunctions()
        strategy = programs.strategy(lambda: _join(config, cluster))
        training = _resume(config, dataset, folder, strategy, cluster, saved, programs)
        _run(training, workdir, logs or workdir / "logs", cluster, listener, observer)
        if is_chief:
            publish()
        if cluster and STRATEGIES[config.strategy].in_step:
            # A process that ended now could not rejoin if the chief were lost before everything is published.
            exit_barrier(lambda: same_everywhere(strategy, len(training.history)), cluster)
        listener("state", state="done")
    return tuple(training.history)


def _join(config: ExperimentConfig, cluster: ClusterConfig | None) -> tf.distribute.Strategy:
    """Return the strategy of this process once all the others of the training are there."""
    with taken_address(cluster), translate_peer_errors(cluster):
        strategy = create_strategy(config, cluster)
        start_compiler()
    return strategy


def _resume(
    config: ExperimentConfig,
    dataset: data.Dataset,
    folder: Path,
    strategy: tf.distribute.Strategy,
    cluster: ClusterConfig | None,
    saved: Checkpoint | None,
    programs: CompiledFunctions,
) -> TrainingState:
    """Return the training as every process of it continues: after the epoch of the chief's checkpoint, if it has one.

    Raises:
        RetryableError: the processes read different checkpoints.
    """
    if cluster and not cluster.is_chief:
        # `saved` was read before the chief had joined, when an older one may still have replaced it.
        saved = load_saved(config, dataset, folder)
    training = TrainingState(config, dataset, folder, strategy, saved, programs)
    epochs = len(training.history)
    in_step = STRATEGIES[config.strategy].in_step
    with translate_peer_errors(cluster):
        if cluster and in_step and not same_everywhere(strategy, epochs):
            raise RetryableError(f"the workers read different checkpoints. Given: epoch {epochs} here")
    return training


def _run(
    training: TrainingState,
    workdir: Path,
    logs: Path,
    cluster: ClusterConfig | None,
    listener: Listener,
    observer: Listener,
) -> None:
    """Train to the end; the chief writes history, events and profile."""
    is_chief = cluster is None or cluster.is_chief
    history = workdir / HISTORY
    if is_chief and training.history:
        # The folder's own may be behind its checkpoint, or the checkpoint another folder's.
        save_history(training.history, history)
    config = training.config
    with (
        event_log(
            logs, config, training.model, training.optimizer, training.dataset.validation, is_chief=is_chief
        ) as events,
        batch_profile(config.options.profiled, logs / "train" if is_chief else None) as profile,
        translate_peer_errors(cluster),
    ):
        _train_epochs(training, history, events, profile, listener, observer)


def _train_epochs(
    training: TrainingState,
    history: Path,
    events: TensorBoardWriter | None,
    profile: BatchProfiler,
    listener: Listener,
    observer: Listener,
) -> None:
    config = training.config
    if events is not None:
        simulator = training.model.get_layer("quantum").simulator
        counts = len(training.dataset.train), training.updates, config.batch_size, config.epochs
        logger.info(
            "%d training samples in %d batches of at most %d; %d epochs make %d updates",
            *(*counts, config.epochs * training.updates),
        )
        left = epochs_left(config, len(training.history), training.tried)
        network = with_shift_rule(simulator.network, config.options.gradient)
        for line in expectation(config, network, simulator.name, left).lines(left):
            logger.info("%s", line)
        if config.noise_by_trajectories:
            logger.info("noise: training runs without, which is exact up to %d qubits alone", NOISE_MAX_QUBITS)
    listener("state", state="compiling")
    saved_at = time.monotonic()
    while not training.is_complete:
        undecided = training.is_undecided
        epoch, measures = training.epoch(profile)
        observer("epoch", **_values(training, epoch))
        training.go_on()
        listener("state", state=_state(training))
        if events is None:
            continue
        if not undecided:
            _report(training, epoch, listener)
            events.epoch(epoch, measures, training.steps)
        elif not training.is_undecided:
            for number, tried in enumerate(training.history, start=1):
                _report(training, tried, listener)
                events.losses(tried, number * training.updates)
        if training.is_complete or time.monotonic() - saved_at >= config.options.checkpoint_seconds:
            training.save()
            observer("checkpoint", checkpoint=time.time())
            if not training.is_undecided:
                save_history(training.history, history)
            saved_at = time.monotonic()
        if said := plateau(training.history, training.dataset.train.label, config):
            logger.warning("%s", said)


def _state(training: TrainingState) -> str:
    if training.is_undecided:
        return f"start {training.tried + 1} of {training.config.options.num_initializations}"
    return "training"


def _values(training: TrainingState, epoch: EpochMetrics) -> dict[str, float]:
    """Return what is told of an epoch, whoever asks."""
    samples_per_second = len(training.dataset.train) / epoch.seconds
    measured = {name: value for name, value in dataclasses.asdict(epoch).items() if value is not None}
    return {**measured, "epochs": training.config.epochs, "samples_per_second": samples_per_second}


def _report(training: TrainingState, epoch: EpochMetrics, listener: Listener) -> None:
    epochs, typical = training.config.epochs, epoch_seconds(training.history)
    listener("epoch", **_values(training, epoch), seconds_left=(epochs - epoch.epoch) * typical)
    accuracy = "" if epoch.val_accuracy is None else f"val_accuracy {epoch.val_accuracy:.3f}, "
    logger.info(
        "epoch %d/%d: train_loss %.4f, val_loss %.4f, %s%.2f s",
        *(epoch.epoch, epochs, epoch.train_loss, epoch.val_loss, accuracy, epoch.seconds),
    )
