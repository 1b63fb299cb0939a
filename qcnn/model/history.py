"""Epoch metrics, the history file, and decisions that depend on them, such as early stopping."""

import csv
import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.artifact_io import check_size
from qcnn.atomic_files import new_file, readable
from qcnn.circuits.error_bound import error_bound
from qcnn.errors import ArtifactError
from qcnn.experiment import ExperimentConfig
from qcnn.storage.copies import local_file

# File in the training folder.
HISTORY = "history.csv"
_COUNTS = ("epoch", "largest_staleness")
# Training has not improved while the loss is above this fraction of the label variance. `_PLATEAU_EPOCH` is the first
# epoch at which this is checked.
_PLATEAU_FRACTION = 0.9
_PLATEAU_EPOCH = 3
# Size of the longest history, at 100 bytes per row.
MAX_HISTORY_BYTES = 2**27


@dataclasses.dataclass(frozen=True)
class EpochMetrics:
    """Metrics of one pass over the training samples.

    Losses are mean squared errors, and `seconds` is wall time. Accuracies are None for regression.

    `staleness` is the mean number of updates by other workers between a worker's read of the weights and its own
    update, and `largest_staleness` the maximum. Both are 0 for synchronous replicas.
    """

    epoch: int
    train_loss: float
    train_accuracy: float | None
    val_loss: float
    val_accuracy: float | None
    seconds: float
    staleness: float = 0.0
    largest_staleness: int = 0


# Columns of the history file. Staleness is written only for asynchronous training.
_COLUMNS = tuple(field.name for field in dataclasses.fields(EpochMetrics))
_OF_ALL = _COLUMNS[: _COLUMNS.index("staleness")]
_ACCURACIES = ("train_accuracy", "val_accuracy")


def best_epoch(history: Sequence[EpochMetrics]) -> EpochMetrics:
    """Return the first epoch with the lowest validation loss."""
    return min(history, key=lambda epoch: epoch.val_loss)


def exported_epoch(history: Sequence[EpochMetrics], weights: str) -> EpochMetrics:
    """Return the epoch whose weights are exported for a value of `export_checkpoint`."""
    return history[-1] if weights == "last" else best_epoch(history)


def is_complete(history: Sequence[EpochMetrics], config: ExperimentConfig, tried: int = 0) -> bool:
    """Return whether training is complete.

    Training is complete after all epochs, at `target_val_loss`, or after `patience` epochs without improvement. With
    several initializations it is not complete until all have been tried.

    Args:
        history: Epochs of the current initialization.
        config: Experiment.
        tried: Number of initializations that were tried completely.
    """
    if is_undecided(config, tried) or not history:
        return False
    if len(history) >= config.epochs:
        return True
    best, patience = best_epoch(history), config.options.patience
    return best.val_loss <= _target_val_loss(config) or bool(patience and len(history) - best.epoch >= patience)


def trial_epochs(config: ExperimentConfig) -> int:
    """Return the number of epochs for which each of several initializations is tried, a tenth of all."""
    return math.ceil(config.epochs / 10)


def epochs_left(config: ExperimentConfig, done: int = 0, tried: int = 0) -> int:
    """Return the remaining epochs of a training run over all initializations.

    Args:
        config: Experiment.
        done: Completed epochs of the current initialization.
        tried: Number of initializations that were tried completely.
    """
    others = config.options.num_initializations - tried - 1 if is_undecided(config, tried) else 0
    return config.epochs - done + others * trial_epochs(config)


def is_undecided(config: ExperimentConfig, tried: int) -> bool:
    """Return whether initializations remain to be tried after the first `tried` ones."""
    return 1 < config.options.num_initializations > tried


def plateau(history: Sequence[EpochMetrics], labels: npt.NDArray[Any], config: ExperimentConfig) -> str | None:
    """Return a warning if the training loss is still near the label variance after a fifth of the epochs.

    Returns None at all other epochs, so that the warning appears once.

    Args:
        history: Epochs of the current initialization.
        labels: Labels of the training samples.
        config: Experiment.
    """
    if len(history) != max(_PLATEAU_EPOCH, math.ceil(config.epochs / 5)):
        return None
    lowest, variance = min(epoch.train_loss for epoch in history), float(np.var(labels))
    if lowest < _PLATEAU_FRACTION * variance:
        return None
    return (
        f"training has not improved: after {len(history)} epochs the lowest training loss is {lowest:.2f}, and the "
        f"label variance is {variance:.2f}; try another learning_rate (now {config.learning_rate:g}), initialization "
        f"or seed, or a larger num_initializations (now {config.options.num_initializations})"
    )


def _target_val_loss(config: ExperimentConfig) -> float:
    """Return the validation loss at which training stops, or minus infinity if there is no target."""
    target = config.options.target
    if target is None:
        return -math.inf
    is_distance, value = target
    bound = error_bound(config.model, config.hidden_activation) if is_distance else None
    return value + (bound.mse if bound else 0.0)


def save_history(history: Sequence[EpochMetrics], path: Path) -> None:
    """Write the history as CSV, one row per epoch."""
    names = _COLUMNS if any(epoch.staleness for epoch in history) else _OF_ALL
    names = tuple(name for name in names if all(getattr(epoch, name) is not None for epoch in history))
    with new_file(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([getattr(epoch, name) for name in names] for epoch in history)


def load_history(path: Path) -> tuple[EpochMetrics, ...]:
    """Read a history file.

    Raises:
        ArtifactError: If the file is missing, damaged or has no epochs.
    """
    with readable("training", path), path.open(newline="", encoding="utf-8") as file:
        check_size(path, MAX_HISTORY_BYTES)
        rows = csv.DictReader(file)
        names = _COLUMNS if set(_COLUMNS) <= set(rows.fieldnames or ()) else _OF_ALL
        missing = set(_ACCURACIES) - set(rows.fieldnames or ())
        history = epochs_of([None if name in missing else row[name] for name in names] for row in rows)
    if not history:
        raise ArtifactError(f"training: {path.name} has no epochs. Given: {path}")
    return history


def epochs_of(rows: Iterable[Sequence[Any]]) -> tuple[EpochMetrics, ...]:
    """Parse epochs from rows of numbers or text, in the order of `EpochMetrics`.

    Rows of older checkpoints have no staleness.

    Raises:
        ValueError: If a value is no finite number, epochs do not count from 1, or a row has a wrong length.
    """

    def epoch_of(row: Sequence[Any]) -> EpochMetrics:
        names = _OF_ALL if len(row) == len(_OF_ALL) else _COLUMNS
        values: dict[str, Any] = {name: _value(name, value) for name, value in zip(names, row, strict=True)}
        return EpochMetrics(**values)

    history = tuple(map(epoch_of, rows))
    for number, epoch in enumerate(history, start=1):
        values = [value for value in vars(epoch).values() if value is not None]
        if epoch.epoch != number or not all(map(math.isfinite, values)):
            raise ValueError(f"epoch {number} must be a row of finite numbers")
    return history


def _value(name: str, value: Any) -> float | None:
    if value is None and name in _ACCURACIES:
        return None
    return int(value) if name in _COUNTS else float(value)


def epoch_seconds(history: Sequence[EpochMetrics]) -> float:
    """Return the median wall time of an epoch in seconds, without the first, which includes compilation."""
    return statistics.median([epoch.seconds for epoch in history[1:] or history])


def last_metrics(training: str) -> dict[str, float]:
    """Return the number of epochs and the last losses and accuracies from the URI of a training folder.

    Raises:
        ArtifactError: If the history is missing or damaged.
        ConfigError: If the bucket denies access.
    """
    with local_file(f"{training}/{HISTORY}") as file:
        last = dataclasses.asdict(load_history(file)[-1])
    return {"epochs": float(last.pop("epoch")), **{name: float(last[name]) for name in last if last[name] is not None}}
