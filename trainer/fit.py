"""Training: exact over any number of workers, and continued where it stopped."""

import contextlib
import dataclasses
import logging
import time
from pathlib import Path

from trainer import checkpoints, data
from trainer.cluster import Cluster, check_workers
from trainer.config import ExperimentConfig
from trainer.errors import RetryableError
from trainer.events import Listener, ignore
from trainer.folders import only_writer
from trainer.history import Epoch, epoch_seconds, is_complete, save_history
from trainer.peers import lost_peers, taken_address
from trainer.profiling import BatchProfile, batch_profile
from trainer.startup import start_compiler
from trainer.steps import same_everywhere
from trainer.strategies import create_strategy
from trainer.tensorboard import EventLog, event_log
from trainer.training import Training

logger = logging.getLogger("trainer")


def train(
    config: ExperimentConfig,
    dataset: data.Dataset,
    workdir: Path,
    *,
    logs: Path | None = None,
    cluster: Cluster | None = None,
    listener: Listener = ignore,
) -> tuple[Epoch, ...]:
    """Train to `config.epochs` and return every epoch's losses; a folder with a checkpoint is continued.

    The chief alone writes: `checkpoints/` and `history.csv` in `workdir`, TensorBoard events in `logs`
    (default `workdir/logs`). Other workers read the chief's checkpoint from the same folder and write nothing.

    Raises:
        ArtifactError: the folder holds another experiment's checkpoint, is in use, or cannot be written.
        ConfigError: the cluster is not the experiment's.
        RetryableError: another process of the training was lost.
        TrainingError: the loss is no longer finite.
    """
    check_workers(config, cluster)
    data.check_fits(dataset, config)
    is_chief = cluster is None or cluster.is_chief
    with contextlib.ExitStack() as stack:
        if is_chief:
            # Before the others can join: they must not read a checkpoint that an older chief still replaces.
            stack.enter_context(only_writer(workdir))
        listener("state", state="waiting for the others" if cluster else "starting")
        with taken_address(cluster), lost_peers(cluster):
            strategy = create_strategy(config, cluster)
            start_compiler()
        training = Training(config, dataset, workdir / checkpoints.FOLDER, strategy)
        with lost_peers(cluster):
            if cluster and not same_everywhere(strategy, len(training.history)):
                raise RetryableError(
                    f"the workers read different checkpoints. Given: epoch {len(training.history)} here"
                )
        if is_chief and training.history:
            # The folder's own may be behind its checkpoint, or the checkpoint another folder's.
            save_history(training.history, workdir / "history.csv")
        if not is_complete(training.history, config.epochs, config.options.patience):
            logs = logs or workdir / "logs"
            events = stack.enter_context(
                event_log(logs, config, training.model, training.optimizer, dataset.validation, is_chief=is_chief)
            )
            folder = logs / "train" if is_chief else None
            profile = stack.enter_context(batch_profile(config.options.profiled, folder))
            with lost_peers(cluster):
                _train_epochs(training, workdir, events, profile, listener)
        listener("state", state="done")
    return tuple(training.history)


def _train_epochs(
    training: Training, workdir: Path, events: EventLog | None, profile: BatchProfile, listener: Listener
) -> None:
    config = training.config
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
            training.save()
            save_history(training.history, workdir / "history.csv")
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
