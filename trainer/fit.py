"""Training: exact over any number of workers, and continued where it stopped."""

import logging
import time
from pathlib import Path

import numpy as np
import tf_keras

from trainer import checkpoints, data
from trainer.batches import Shards, shard
from trainer.checkpoints import Checkpoint
from trainer.cluster import Cluster, check_workers
from trainer.config import ExperimentConfig
from trainer.errors import TrainingError
from trainer.history import Epoch, save_history
from trainer.model import build_model, build_optimizer
from trainer.profiling import batch_profile
from trainer.steps import Measures, measuring_epoch, training_epoch
from trainer.strategies import create_strategy
from trainer.tensorboard import event_log

logger = logging.getLogger("trainer")


def train(
    config: ExperimentConfig,
    dataset: data.Dataset,
    workdir: Path,
    *,
    logs: Path | None = None,
    cluster: Cluster | None = None,
) -> tuple[Epoch, ...]:
    """Train to `config.epochs` and return every epoch's losses; a folder with a checkpoint is continued.

    The chief alone writes: `checkpoints/` and `history.csv` in `workdir`, TensorBoard events in `logs`
    (default `workdir/logs`). Other workers read the chief's checkpoint from the same folder and write nothing.

    Raises:
        ArtifactError: the folder holds another experiment's checkpoint, or cannot be written.
        ConfigError: the cluster is not the experiment's.
        TrainingError: the loss is no longer finite.
    """
    check_workers(config, cluster)
    data.check_fits(dataset, config)
    folder = workdir / "checkpoints"
    digest = dataset.digest
    saved = checkpoints.load_latest(folder)
    if saved:
        checkpoints.check_continues(saved, config, digest)
        if saved.epochs == config.epochs:
            logger.info("all %d epochs are trained already", saved.epochs)
            return saved.history
    is_chief = cluster is None or cluster.is_chief
    strategy = create_strategy(config, cluster)
    with strategy.scope():
        model = build_model(config)
        optimizer = build_optimizer(config)
        optimizer.build(model.trainable_variables)
    history = list(saved.history) if saved else []
    if saved:
        restore(saved, model, optimizer)
        logger.info("continuing after epoch %d", saved.epochs)

    run_training = training_epoch(strategy, model, optimizer)
    run_validation = measuring_epoch(strategy, model)
    replicas = strategy.num_replicas_in_sync
    validation = shard(dataset.validation, config.batch_size, replicas)
    last_saved = time.monotonic()
    logs = logs or workdir / "logs"
    with (
        event_log(logs, config, model, optimizer, dataset.validation, is_chief=is_chief) as events,
        batch_profile(config.options.profiled, logs / "train" if is_chief else None) as profile,
    ):
        for epoch in range(len(history) + 1, config.epochs + 1):
            start = time.perf_counter()
            order = data.order(config.seed, epoch, len(dataset.train))
            batches = shard(dataset.train.take(order), config.batch_size, replicas)
            done = (epoch - 1) * len(batches.sizes)
            measures = profile.run(run_training, batches, done)
            train_loss, train_accuracy = _mean(measures, batches, epoch, "training")
            val_loss, val_accuracy = _mean(run_validation(validation), validation, epoch, "validation")
            seconds = time.perf_counter() - start
            history.append(Epoch(epoch, train_loss, train_accuracy, val_loss, val_accuracy, seconds))
            if events is None:
                continue
            _report(history[-1], config.epochs)
            events.epoch(history[-1], measures, done + len(measures))
            due = time.monotonic() - last_saved >= config.options.checkpoint_seconds
            if due or epoch == config.epochs:
                checkpoints.save(capture(config, digest, history, model, optimizer), folder)
                save_history(history, workdir / "history.csv")
                last_saved = time.monotonic()
    return tuple(history)


def capture(
    config: ExperimentConfig,
    digest: str,
    history: list[Epoch],
    model: tf_keras.Model,
    optimizer: tf_keras.optimizers.Optimizer,
) -> Checkpoint:
    """Return the state of training as plain arrays."""
    return Checkpoint(
        config=config,
        dataset_digest=digest,
        history=tuple(history),
        weights=tuple(variable.numpy() for variable in model.trainable_variables),
        optimizer=tuple(variable.numpy() for variable in optimizer.variables),
    )


def restore(
    checkpoint: Checkpoint, model: tf_keras.Model, optimizer: tf_keras.optimizers.Optimizer | None = None
) -> None:
    """Set weights, and the optimizer's state where one is given, to a checkpoint's."""
    for variable, value in zip(model.trainable_variables, checkpoint.weights, strict=True):
        variable.assign(value)
    if optimizer is not None:
        for variable, value in zip(optimizer.variables, checkpoint.optimizer, strict=True):
            variable.assign(value)


def _mean(measures: Measures, shards: Shards, epoch: int, what: str) -> tuple[float, float]:
    """Average loss and accuracy over all samples; a loss that is not finite ends training."""
    bad = np.flatnonzero(~np.isfinite(measures[:, 0]))
    if len(bad):
        raise TrainingError(
            f"the {what} loss is no longer finite at epoch {epoch}, step {bad[0] + 1}; a smaller learning_rate may "
            f"help. Given: loss {measures[bad[0], 0]}"
        )
    loss, accuracy = shards.sizes @ measures[:, :2] / shards.sizes.sum()
    return float(loss), float(accuracy)


def _report(epoch: Epoch, epochs: int) -> None:
    logger.info(
        "epoch %d/%d: train_loss %.4f, val_loss %.4f, val_accuracy %.3f, %.2f s",
        *(epoch.epoch, epochs, epoch.train_loss, epoch.val_loss, epoch.val_accuracy, epoch.seconds),
    )
