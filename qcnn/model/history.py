"""What training reports of every epoch."""

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

# In the folder of a training.
HISTORY = "history.csv"
_COUNTS = ("epoch", "largest_staleness")
# The share of the labels' variance above which nothing is learnt, and the first epoch that is looked at.
_LEARNT = 0.9
# Of the most epochs, in rows of a hundred.
MOST_BYTES = 2**27
_PLATEAU = 3


@dataclasses.dataclass(frozen=True)
class EpochMetrics:
    """One pass over the training samples; losses are mean squared errors, `seconds` is wall time.

    Of a regression there is no accuracy.

    `staleness` is the mean number of updates that others applied between a worker's reading of the weights and its own
    update, beside the largest such number: 0 where all replicas are in step.
    """

    epoch: int
    train_loss: float
    train_accuracy: float | None
    val_loss: float
    val_accuracy: float | None
    seconds: float
    staleness: float = 0.0
    largest_staleness: int = 0


# In the order of `EpochMetrics`; those of trainings in step are not written.
_COLUMNS = tuple(field.name for field in dataclasses.fields(EpochMetrics))
_OF_ALL = _COLUMNS[: _COLUMNS.index("staleness")]
_ACCURACIES = ("train_accuracy", "val_accuracy")


def best_epoch(history: Sequence[EpochMetrics]) -> EpochMetrics:
    """Return the epoch with the lowest validation loss, the first of equals."""
    return min(history, key=lambda epoch: epoch.val_loss)


def exported_epoch(history: Sequence[EpochMetrics], weights: str) -> EpochMetrics:
    """Return the epoch whose weights are exported where an experiment asks for these: last, best or both."""
    return history[-1] if weights == "last" else best_epoch(history)


def is_complete(history: Sequence[EpochMetrics], config: ExperimentConfig, tried: int = 0) -> bool:
    """Whether training is over: all epochs done, the loss to stop at reached, or none lower for `patience` epochs.

    Not before all starts have been tried, where there are several.
    """
    if is_undecided(config, tried) or not history:
        return False
    if len(history) >= config.epochs:
        return True
    best, patience = best_epoch(history), config.options.patience
    return best.val_loss <= _stop_at(config) or bool(patience and len(history) - best.epoch >= patience)


def trial_epochs(config: ExperimentConfig) -> int:
    """Return for how many epochs each of several starts is tried: a tenth of all."""
    return math.ceil(config.epochs / 10)


def epochs_left(config: ExperimentConfig, done: int = 0, tried: int = 0) -> int:
    """Return the epochs of all starts that are left of a training, after those of a start and so many starts tried."""
    others = config.options.num_initializations - tried - 1 if is_undecided(config, tried) else 0
    return config.epochs - done + others * trial_epochs(config)


def is_undecided(config: ExperimentConfig, tried: int) -> bool:
    """Whether, after so many starts have been tried, others are still to be."""
    return 1 < config.options.num_initializations > tried


def plateau(history: Sequence[EpochMetrics], labels: npt.NDArray[Any], config: ExperimentConfig) -> str | None:
    """Return a line to say where, after a fifth of the epochs, the loss has not left the labels' variance; once."""
    if len(history) != max(_PLATEAU, math.ceil(config.epochs / 5)):
        return None
    least, variance = min(epoch.train_loss for epoch in history), float(np.var(labels))
    if least < _LEARNT * variance:
        return None
    return (
        f"nothing is learnt yet: after {len(history)} epochs the lowest training loss is {least:.2f}, and the labels' "
        f"variance is {variance:.2f}; another learning_rate (here {config.learning_rate:g}), initialization or seed, "
        f"or more starts (here {config.options.num_initializations}) may help"
    )


def _stop_at(config: ExperimentConfig) -> float:
    """Return the validation loss at which training stops, minus infinity for never."""
    target = config.options.target
    if target is None:
        return -math.inf
    is_distance, value = target
    floor = error_bound(config.model, config.hidden_activation) if is_distance else None
    return value + (floor.mse if floor else 0.0)


def save_history(history: Sequence[EpochMetrics], path: Path) -> None:
    """Write one row an epoch as CSV."""
    names = _COLUMNS if any(epoch.staleness for epoch in history) else _OF_ALL
    names = tuple(name for name in names if all(getattr(epoch, name) is not None for epoch in history))
    with new_file(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([getattr(epoch, name) for name in names] for epoch in history)


def load_history(path: Path) -> tuple[EpochMetrics, ...]:
    """Read what `save_history` wrote.

    Raises:
        ArtifactError: the file is missing, damaged or holds no epoch.
    """
    with readable("training", path), path.open(newline="", encoding="utf-8") as file:
        check_size(path, MOST_BYTES)
        rows = csv.DictReader(file)
        names = _COLUMNS if set(_COLUMNS) <= set(rows.fieldnames or ()) else _OF_ALL
        left_out = set(_ACCURACIES) - set(rows.fieldnames or ())
        history = epochs_of([None if name in left_out else row[name] for name in names] for row in rows)
    if not history:
        raise ArtifactError(f"training: {path.name} holds no epoch. Given: {path}")
    return history


def epochs_of(rows: Iterable[Sequence[Any]]) -> tuple[EpochMetrics, ...]:
    """Return epochs from their values, numbers or text, in the order of `EpochMetrics`; older ones have no staleness.

    Raises:
        ValueError: a value is no number, or epochs do not count from 1; or a row has other values than these.
    """

    def epoch_of(row: Sequence[Any]) -> EpochMetrics:
        names = _OF_ALL if len(row) == len(_OF_ALL) else _COLUMNS
        values: dict[str, Any] = {name: _value(name, value) for name, value in zip(names, row, strict=True)}
        return EpochMetrics(**values)

    history = tuple(map(epoch_of, rows))
    for number, epoch in enumerate(history, start=1):
        values = [value for value in vars(epoch).values() if value is not None]
        if epoch.epoch != number or not all(map(math.isfinite, values)):
            raise ValueError(f"epoch {number} is not a row of numbers")
    return history


def _value(name: str, value: Any) -> float | None:
    if value is None and name in _ACCURACIES:
        return None
    return int(value) if name in _COUNTS else float(value)


def epoch_seconds(history: Sequence[EpochMetrics]) -> float:
    """Return the median wall time of an epoch, without the first, which compiles."""
    return statistics.median([epoch.seconds for epoch in history[1:] or history])


def last_metrics(training: str) -> dict[str, float]:
    """Return the number of epochs of a training, and the losses and accuracies of the last, from its folder's address.

    Raises:
        ArtifactError: there is no history, or it is damaged.
        ConfigError: the bucket refuses.
    """
    with local_file(f"{training}/{HISTORY}") as file:
        last = dataclasses.asdict(load_history(file)[-1])
    return {"epochs": float(last.pop("epoch")), **{name: float(last[name]) for name in last if last[name] is not None}}
