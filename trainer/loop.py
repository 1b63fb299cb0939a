"""The training loop, which is exact for any number of workers and resumes from checkpoints."""

import collections
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import tensorflow as tf

from qcnn import data
from qcnn.atomic_files import exclusive_lock
from qcnn.errors import RetryableError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.requirements import STRATEGIES
from qcnn.model import checkpoints
from qcnn.model.checkpoints import Checkpoint
from qcnn.model.constant_readouts import check_readouts
from qcnn.model.history import EpochMetrics, describe_search, epoch_seconds, epochs_left, plateau
from qcnn.model.steps import same_everywhere
from qcnn.planning.training_estimate import expectation
from qcnn.process.library_loading import start_compiler
from qcnn.simulators.registry import NOISE_MAX_QUBITS
from qcnn.simulators.structure.shift_rules import with_shift_rule
from qcnn.trainer.distribution.joining import exit_barrier, translate_address_error, translate_peer_errors
from qcnn.trainer.distribution.roles import ClusterConfig, check_roles
from qcnn.trainer.distribution.strategies import create_strategy
from qcnn.trainer.events import Listener, ignore
from qcnn.trainer.programs import CompiledFunctions
from qcnn.trainer.saving import is_save_due
from qcnn.trainer.state import TrainingState, load_saved, open_history
from qcnn.trainer.tensorboard import BatchProfiler, TensorBoardWriter, batch_profile, event_log, unused_range

logger = logging.getLogger("qcnn")

# Number of epochs from whose times the remaining time is estimated.
_RECENT_EPOCHS = 100


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
    should_stop: Callable[[int], bool] = lambda epoch: False,
    programs: CompiledFunctions | None = None,
) -> tuple[EpochMetrics, ...]:
    """Train an experiment, resuming from the last checkpoint of its folder.

    Only the chief writes. Other workers read the chief's checkpoint from the same folder. No process returns before
    `publish` of the chief has returned.

    Args:
        config: Experiment.
        dataset: Dataset of the experiment.
        workdir: Training folder for `checkpoints/` and `history.csv`.
        logs: Folder for TensorBoard events, by default `workdir/logs`.
        cluster: Cluster of this process, or None for a single process.
        listener: Callback for states, and in the chief for epochs of the final initialization.
        observer: Callback for each epoch that this process trains, and in the chief for each checkpoint.
        publish: Function that the chief calls after everything is written.
        should_stop: Function that each process calls after each epoch of the final initialization with its number, and
            that returns whether training is complete. It must return the same value in all processes.
        programs: Compiled functions to share between training runs of a process, which does not change results.

    Returns:
        The metrics of every epoch. Empty in processes other than the chief.

    Raises:
        ArtifactError: If the folder has a checkpoint of another experiment or a damaged history, is in use, or cannot
            be written.
        ConfigError: If the cluster does not match the experiment, or all readouts are equal for all samples.
        RetryableError: If another process of the training job fails.
        TrainingError: If the loss is not finite.

    >>> from pathlib import Path
    >>> from qcnn import data
    >>> from qcnn.experiment.parsing import from_mapping
    >>> config = from_mapping({"qubits": 4, "rounds": 10, "epochs": 2, "strategy": "none", "workers": 1})
    >>> history = train(config, data.generate(config), Path("training"))
    >>> [epoch.epoch for epoch in history]
    [1, 2]
    """
    check_roles(config, cluster)
    data.check_fits(dataset, config)
    is_chief = cluster is None or cluster.is_chief
    folder = workdir / checkpoints.FOLDER
    # Locked before other processes can join, so that they do not read a checkpoint that an older chief is replacing.
    with exclusive_lock(workdir) if is_chief else contextlib.nullcontext():
        saved = load_saved(config, dataset, folder)
        if saved and saved.completes(config):
            # Do not wait for other processes: they may have ended before this process failed and was restarted.
            history = open_history(config, dataset, workdir, saved.line.history) if is_chief else None
            listener("state", state="done")
            return history.store().epochs() if history else ()
        listener("state", state="waiting for other processes" if cluster else "starting")
        programs = programs or CompiledFunctions()
        strategy = programs.strategy(lambda: _join(config, cluster))
        training = _resume(config, dataset, workdir, strategy, cluster, saved, programs)
        if not training.has_begun:
            warning = check_readouts(config, training.readouts, training.constant_readouts)
            if warning and is_chief:
                logger.warning("%s", warning)
        _run(training, logs or workdir / "logs", cluster, listener, observer, should_stop)
        if is_chief:
            publish()
        if cluster and STRATEGIES[config.strategy].is_synchronous:
            # A process that ends now could not rejoin if the chief failed before everything is published.
            exit_barrier(lambda: same_everywhere(strategy, training.progress.epochs), cluster)
        listener("state", state="done")
    return training.history


def _join(config: ExperimentConfig, cluster: ClusterConfig | None) -> tf.distribute.Strategy:
    """Create the strategy of this process, and wait for all other processes of the training job."""
    with translate_address_error(cluster), translate_peer_errors(cluster):
        strategy = create_strategy(config, cluster)
        start_compiler()
    return strategy


def _resume(
    config: ExperimentConfig,
    dataset: data.Dataset,
    workdir: Path,
    strategy: tf.distribute.Strategy,
    cluster: ClusterConfig | None,
    saved: Checkpoint | None,
    programs: CompiledFunctions,
) -> TrainingState:
    """Return the training state after the chief's checkpoint, equal in all processes.

    Raises:
        RetryableError: If the processes read different checkpoints.
    """
    is_chief = cluster is None or cluster.is_chief
    if not is_chief:
        # `saved` was read before the chief joined, when an older chief may still have replaced it.
        saved = load_saved(config, dataset, workdir / checkpoints.FOLDER)
    training = TrainingState(config, dataset, workdir if is_chief else None, strategy, saved, programs)
    epochs = training.progress.epochs
    is_synchronous = STRATEGIES[config.strategy].is_synchronous
    with translate_peer_errors(cluster):
        if cluster and is_synchronous and not same_everywhere(strategy, epochs):
            raise RetryableError(f"the workers must read the same checkpoint. Given: epoch {epochs} in this worker")
    return training


def _run(
    training: TrainingState,
    logs: Path,
    cluster: ClusterConfig | None,
    listener: Listener,
    observer: Listener,
    should_stop: Callable[[int], bool],
) -> None:
    """Train to the end, and in the chief write checkpoints, events and profile."""
    is_chief = cluster is None or cluster.is_chief
    config = training.config
    with (
        event_log(
            logs, config, training.model, training.optimizer, training.dataset.validation, is_chief=is_chief
        ) as events,
        batch_profile(config.options.profiled, logs / "train" if is_chief else None) as profile,
        translate_peer_errors(cluster),
    ):
        _train_epochs(training, events, profile, listener, observer, should_stop)


def _train_epochs(
    training: TrainingState,
    events: TensorBoardWriter | None,
    profile: BatchProfiler,
    listener: Listener,
    observer: Listener,
    should_stop: Callable[[int], bool],
) -> None:
    config = training.config
    if events is not None:
        simulator = training.model.get_layer("quantum").simulator
        counts = training.samples, training.updates, config.batch_size, config.epochs
        logger.info(
            "%d training samples in %d batches of at most %d; %d epochs make %d updates",
            *(*counts, config.epochs * training.updates),
        )
        if not simulator.network.parameters:
            logger.info("the circuit has no parameters: only the dense layers are trained")
        if training.is_undecided:
            logger.info("trying %s; the best continues", describe_search(config))
        if message := unused_range(config.options, epochs_left(config) * training.updates):
            logger.info("%s", message)
        left = training.epochs_left
        network = with_shift_rule(simulator.network, config.options.gradient)
        for line in expectation(config, network, simulator.name, left).lines(left):
            logger.info("%s", line)
        if config.is_classification and config.options.shots:
            logger.info("shots: the loss of estimated probabilities is on average above that of exact ones")
        if config.noise_by_trajectories:
            logger.info("noise: training runs without noise, which requires at most %d qubits", NOISE_MAX_QUBITS)
    listener("state", state="compiling")
    recent: collections.deque[EpochMetrics] = collections.deque(maxlen=_RECENT_EPOCHS)
    saved_at, save_seconds = time.monotonic(), 0.0
    while not training.is_complete:
        undecided = training.is_undecided
        epoch, measures = training.epoch(profile)
        recent.append(epoch)
        observer("epoch", **_values(training, epoch))
        training.go_on()
        listener("state", state=_state(training))
        if events is None:
            _stop_if_requested(training, should_stop)
            continue
        if not undecided:
            _report(training, epoch, recent, listener)
            events.epoch(epoch, measures, training.steps)
        elif not training.is_undecided:
            for number, tried in enumerate(training.history, start=1):
                _report(training, tried, recent, listener)
                events.losses(tried, number * training.updates)
        if _stop_if_requested(training, should_stop):
            logger.info("stopped after epoch %d by a callback", training.progress.epochs)
        began = time.monotonic()
        if training.is_complete or is_save_due(began - saved_at, save_seconds, config.options.checkpoint_seconds):
            training.save()
            saved_at = time.monotonic()
            save_seconds = saved_at - began
            observer("checkpoint", checkpoint=time.time())
        if warning := plateau(training.progress, training.dataset.train.label, config, training.is_constant):
            logger.warning("%s", warning)


def _stop_if_requested(training: TrainingState, should_stop: Callable[[int], bool]) -> bool:
    """Stop training if this is requested after its last epoch, and return whether it has more epochs otherwise."""
    # The epochs of initializations that are tried are reported after the search.
    if training.is_undecided or not should_stop(training.progress.epochs) or training.is_complete:
        return False
    training.stop()
    return True


def _state(training: TrainingState) -> str:
    if training.is_undecided:
        return f"initialization {training.tried + 1} of {training.initializations}"
    return "training"


def _values(training: TrainingState, epoch: EpochMetrics) -> dict[str, float]:
    """Return the event values of an epoch."""
    samples_per_second = training.samples / epoch.seconds
    measured = {name: value for name, value in dataclasses.asdict(epoch).items() if value is not None}
    return {**measured, "epochs": training.config.epochs, "samples_per_second": samples_per_second}


def _report(training: TrainingState, epoch: EpochMetrics, recent: Iterable[EpochMetrics], listener: Listener) -> None:
    epochs, seconds = training.config.epochs, epoch_seconds(tuple(recent))
    listener("epoch", **_values(training, epoch), seconds_left=(epochs - epoch.epoch) * seconds)
    accuracy = "" if epoch.val_accuracy is None else f"val_accuracy {epoch.val_accuracy:.3f}, "
    logger.info(
        "epoch %d/%d: train_loss %.4f, val_loss %.4f, %s%.2f s",
        *(epoch.epoch, epochs, epoch.train_loss, epoch.val_loss, accuracy, epoch.seconds),
    )
