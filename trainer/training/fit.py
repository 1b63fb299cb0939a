"""Training: exact over any number of workers, and continued where it stopped."""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable
from pathlib import Path

from trainer import data
from trainer.config import ExperimentConfig
from trainer.errors import RetryableError
from trainer.expectation import expectation
from trainer.folders import only_writer
from trainer.startup import start_compiler
from trainer.training import checkpoints
from trainer.training.history import Epoch, epoch_seconds, is_complete, save_history
from trainer.training.messages import Listener, ignore
from trainer.training.peers import lost_peers, taken_address
from trainer.training.profiling import BatchProfile, batch_profile
from trainer.training.roles import Cluster, check_workers
from trainer.training.state import Training, load_saved
from trainer.training.steps import same_everywhere
from trainer.training.strategies import create_strategy
from trainer.training.tensorboard import EventLog, event_log

logger = logging.getLogger("qcnn")


def train(
    config: ExperimentConfig,
    dataset: data.Dataset,
    workdir: Path,
    *,
    logs: Path | None = None,
    cluster: Cluster | None = None,
    listener: Listener = ignore,
    publish: Callable[[], None] = lambda: None,
) -> tuple[Epoch, ...]:
    """Train to `config.epochs` and return every epoch's losses; a folder with a checkpoint is continued.

    The chief alone writes: `checkpoints/` and `history.csv` in `workdir`, TensorBoard events in `logs`
    (default `workdir/logs`). Other workers read the chief's checkpoint from the same folder and write nothing.
    When all is written the chief calls `publish`, and no process ends before that has returned.

    Raises:
        ArtifactError: the folder holds another experiment's checkpoint, is in use, or cannot be written.
        ConfigError: the cluster is not the experiment's.
        RetryableError: another process of the training was lost.
        TrainingError: the loss is no longer finite.
    """
    check_workers(config, cluster)
    data.check_fits(dataset, config)
    is_chief = cluster is None or cluster.is_chief
    folder, history = workdir / checkpoints.FOLDER, workdir / "history.csv"
    with contextlib.ExitStack() as stack:
        if is_chief:
            # Before the others can join: they must not read a checkpoint that an older chief still replaces.
            stack.enter_context(only_writer(workdir))
        saved = load_saved(config, dataset, folder)
        if saved and is_complete(saved.history, config.epochs, config.options.patience):
            # Nobody is waited for: they may have ended before this process was lost.
            if is_chief:
                save_history(saved.history, history)
            listener("state", state="done")
            return saved.history
        listener("state", state="waiting for the others" if cluster else "starting")
        with taken_address(cluster), lost_peers(cluster):
            strategy = create_strategy(config, cluster)
            start_compiler()
        training = Training(config, dataset, folder, strategy)
        with lost_peers(cluster):
            if cluster and not same_everywhere(strategy, len(training.history)):
                raise RetryableError(
                    f"the workers read different checkpoints. Given: epoch {len(training.history)} here"
                )
        if is_chief and training.history:
            # The folder's own may be behind its checkpoint, or the checkpoint another folder's.
            save_history(training.history, history)
        logs = logs or workdir / "logs"
        with (
            event_log(
                logs, config, training.model, training.optimizer, dataset.validation, is_chief=is_chief
            ) as events,
            batch_profile(config.options.profiled, logs / "train" if is_chief else None) as profile,
            lost_peers(cluster),
        ):
            _train_epochs(training, history, events, profile, listener)
        if is_chief:
            publish()
        with lost_peers(cluster):
            if cluster:
                # Who ended now could not be joined again by a chief that is lost before all is published.
                same_everywhere(strategy, len(training.history))
        listener("state", state="done")
    return tuple(training.history)


def _train_epochs(
    training: Training, history: Path, events: EventLog | None, profile: BatchProfile, listener: Listener
) -> None:
    config = training.config
    if events is not None:
        simulator = training.model.get_layer("quantum").simulator
        left = config.epochs - len(training.history)
        for line in expectation(config, simulator.network, simulator.name, left).lines(left):
            logger.info("%s", line)
    listener("state", state="compiling")
    saved_at = time.monotonic()
    complete = False
    while not complete:
        epoch, measures = training.epoch(profile)
        complete = is_complete(training.history, config.epochs, config.options.patience)
        listener("state", state="training")
        if events is None:
            continue
        _report(training, epoch, listener)
        events.epoch(epoch, measures, training.steps)
        if complete or time.monotonic() - saved_at >= config.options.checkpoint_seconds:
            training.save(complete=complete)
            save_history(training.history, history)
            saved_at = time.monotonic()


def _report(training: Training, epoch: Epoch, listener: Listener) -> None:
    epochs, typical = training.config.epochs, epoch_seconds(training.history)
    listener(
        "epoch",
        **dataclasses.asdict(epoch),
        epochs=epochs,
        samples_per_second=len(training.dataset.train) / epoch.seconds,
        seconds_left=(epochs - epoch.epoch) * typical,
    )
    logger.info(
        "epoch %d/%d: train_loss %.4f, val_loss %.4f, val_accuracy %.3f, %.2f s",
        *(epoch.epoch, epochs, epoch.train_loss, epoch.val_loss, epoch.val_accuracy, epoch.seconds),
    )
