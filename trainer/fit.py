"""Training: exact over any number of workers, and continued where it stopped."""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer import checkpoints, data
from trainer.batches import Shards, shard
from trainer.checkpoints import Checkpoint
from trainer.cluster import Cluster, check_workers
from trainer.config import ExperimentConfig
from trainer.errors import TrainingError
from trainer.events import Listener, ignore
from trainer.folders import only_writer
from trainer.history import Epoch, best_epoch, epoch_seconds, is_complete, save_history
from trainer.model import build_model, build_optimizer
from trainer.peers import lost_peers, taken_address
from trainer.steps import Measures, measuring_epoch, training_epoch
from trainer.strategies import create_strategy
from trainer.tensorboard import EventLog, event_log

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
        training = _Training(config, dataset, workdir / checkpoints.FOLDER, strategy)
        if not is_complete(training.history, config.epochs, config.options.patience):
            events = stack.enter_context(event_log(logs or workdir / "logs", is_chief))
            with lost_peers(cluster):
                _train_epochs(training, workdir, events, is_chief, listener)
        listener("state", state="done")
    return tuple(training.history)


class _Training:
    """The state of a training, and its compiled epochs."""

    def __init__(
        self, config: ExperimentConfig, dataset: data.Dataset, folder: Path, strategy: tf.distribute.Strategy
    ) -> None:
        self.config, self.dataset, self.folder = config, dataset, folder
        saved = checkpoints.load_latest(folder)
        if saved:
            checkpoints.check_continues(saved, config, dataset.digest)
        with strategy.scope():
            self.model = build_model(config)
            self.optimizer = build_optimizer(config)
            self.optimizer.build(self.model.trainable_variables)
        self.history: list[Epoch] = []
        self.best_weights: tuple[npt.NDArray[np.float64], ...] = ()
        if saved:
            assign(self.model.trainable_variables, saved.weights)
            assign(self.optimizer.variables, saved.optimizer)
            self.history, self.best_weights = list(saved.history), saved.best_weights
            logger.info("continuing after epoch %d", saved.epochs)
        self._replicas = strategy.num_replicas_in_sync
        self._validation = shard(dataset.validation, config.batch_size, self._replicas)
        self._train = training_epoch(strategy, self.model, self.optimizer)
        self._validate = measuring_epoch(strategy, self.model)

    @property
    def steps(self) -> int:
        """Updates so far."""
        return len(self.history) * -(-len(self.dataset.train) // self.config.batch_size)

    def epoch(self) -> Epoch:
        """Train and validate one more epoch."""
        start = time.perf_counter()
        number = len(self.history) + 1
        order = data.order(self.config.seed, number, len(self.dataset.train))
        batches = shard(self.dataset.train.take(order), self.config.batch_size, self._replicas)
        train_loss, train_accuracy = _mean(self._train(batches), batches, number, "training")
        val_loss, val_accuracy = _mean(self._validate(self._validation), self._validation, number, "validation")
        seconds = time.perf_counter() - start
        self.history.append(Epoch(number, train_loss, train_accuracy, val_loss, val_accuracy, seconds))
        if self.config.options.weights != "last" and best_epoch(self.history).epoch == number:
            self.best_weights = _values(self.model.trainable_variables)
        return self.history[-1]

    def save(self) -> None:
        """Write a checkpoint."""
        checkpoint = Checkpoint(
            config=self.config,
            dataset_digest=self.dataset.digest,
            history=tuple(self.history),
            weights=_values(self.model.trainable_variables),
            optimizer=_values(self.optimizer.variables),
            best_weights=self.best_weights,
        )
        checkpoints.save(checkpoint, self.folder)


def _train_epochs(training: _Training, workdir: Path, events: EventLog, is_chief: bool, listener: Listener) -> None:
    config = training.config
    listener("state", state="compiling")
    saved_at = time.monotonic()
    complete = False
    while not complete:
        epoch = training.epoch()
        complete = is_complete(training.history, config.epochs, config.options.patience)
        listener("state", state="training")
        if not is_chief:
            continue
        _report(training, epoch, listener)
        events.epoch(epoch, training.steps)
        if complete or time.monotonic() - saved_at >= config.options.checkpoint_seconds:
            # In this order: a history that is ahead is written again, one that is behind would stay so.
            save_history(training.history, workdir / "history.csv")
            training.save()
            saved_at = time.monotonic()


def assign(variables: Sequence[tf.Variable], values: Sequence[npt.NDArray[Any]]) -> None:
    """Set variables to the values of a checkpoint, in order."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _mean(measures: Measures, shards: Shards, epoch: int, what: str) -> tuple[float, float]:
    """Average loss and accuracy over all samples; a loss that is not finite ends training."""
    bad = np.flatnonzero(~np.isfinite(measures[:, 0]))
    if len(bad):
        raise TrainingError(
            f"the {what} loss is no longer finite at epoch {epoch}, step {bad[0] + 1}; a smaller learning_rate may "
            f"help. Given: loss {measures[bad[0], 0]}"
        )
    loss, accuracy = shards.sizes @ measures / shards.sizes.sum()
    return float(loss), float(accuracy)


def _values(variables: Sequence[tf.Variable]) -> tuple[npt.NDArray[Any], ...]:
    return tuple(variable.numpy() for variable in variables)


def _report(training: _Training, epoch: Epoch, listener: Listener) -> None:
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
