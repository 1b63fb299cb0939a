"""What training reports of every epoch."""

import csv
import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path

from trainer.folders import new_file


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


def epoch_seconds(history: Sequence[Epoch]) -> float:
    """Return the median wall time of an epoch, without the first, which compiles."""
    return statistics.median([epoch.seconds for epoch in history[1:] or history])
