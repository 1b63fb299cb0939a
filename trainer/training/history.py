"""What training reports of every epoch."""

import csv
import dataclasses
import math
import statistics
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trainer.errors import ArtifactError
from trainer.folders import new_file, readable


@dataclasses.dataclass(frozen=True)
class Epoch:
    """One pass over the training samples; losses are mean squared errors, `seconds` is wall time."""

    epoch: int
    train_loss: float
    train_accuracy: float
    val_loss: float
    val_accuracy: float
    seconds: float


def best_epoch(history: Sequence[Epoch]) -> Epoch:
    """Return the epoch with the lowest validation loss, the first of equals."""
    return min(history, key=lambda epoch: epoch.val_loss)


def exported_epoch(history: Sequence[Epoch], weights: str) -> Epoch:
    """Return the epoch whose weights are exported where an experiment asks for these: last, best or both."""
    return history[-1] if weights == "last" else best_epoch(history)


def is_complete(history: Sequence[Epoch], epochs: int, patience: int) -> bool:
    """Whether training is over: all epochs done, or no lower validation loss for `patience` epochs (0: any number)."""
    if len(history) >= epochs:
        return True
    return bool(patience and history and len(history) - best_epoch(history).epoch >= patience)


def save_history(history: Sequence[Epoch], path: Path) -> None:
    """Write one row an epoch as CSV."""
    with new_file(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in dataclasses.fields(Epoch))
        writer.writerows(dataclasses.astuple(epoch) for epoch in history)


def load_history(path: Path) -> tuple[Epoch, ...]:
    """Read what `save_history` wrote.

    Raises:
        ArtifactError: the file is missing, damaged or holds no epoch.
    """
    names = [field.name for field in dataclasses.fields(Epoch)]
    with readable("training", path), path.open(newline="", encoding="utf-8") as file:
        history = epochs_of([row[name] for name in names] for row in csv.DictReader(file))
    if not history:
        raise ArtifactError(f"training: {path.name} holds no epoch. Given: {path}")
    return history


def epochs_of(rows: Iterable[Sequence[Any]]) -> tuple[Epoch, ...]:
    """Return epochs from their values, numbers or text, in the order of `Epoch`.

    Raises:
        ValueError: a value is no number, or epochs do not count from 1.
    """
    kinds = typing.get_type_hints(Epoch).values()
    history = tuple(Epoch(*(kind(value) for kind, value in zip(kinds, row, strict=True))) for row in rows)
    for number, epoch in enumerate(history, start=1):
        if epoch.epoch != number or not all(map(math.isfinite, vars(epoch).values())):
            raise ValueError(f"epoch {number} is not a row of numbers")
    return history


def epoch_seconds(history: Sequence[Epoch]) -> float:
    """Return the median wall time of an epoch, without the first, which compiles."""
    return statistics.median([epoch.seconds for epoch in history[1:] or history])
