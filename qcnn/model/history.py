"""Epoch metrics, their rows as CSV, and decisions that depend on them, such as early stopping."""

import csv
import dataclasses
import functools
import io
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.circuits.error_bound import error_bound
from qcnn.experiment.config import ExperimentConfig

_COUNTS = ("epoch", "largest_staleness")
# Training has not improved while the loss is above this fraction of the label variance. `_PLATEAU_EPOCH` is the first
# epoch at which this is checked.
_PLATEAU_FRACTION = 0.9
_PLATEAU_EPOCH = 3


@dataclasses.dataclass(frozen=True)
class EpochMetrics:
    """Metrics of one pass over the training samples.

    Losses are mean squared errors or cross-entropies, and `seconds` is wall time. Accuracies are None for regression.

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


@dataclasses.dataclass(frozen=True)
class Progress:
    """Running values of the epochs of an initialization, on which decisions depend.

    Their size does not depend on the number of epochs. `best` is the first epoch with the lowest validation loss.
    """

    epochs: int = 0
    best: EpochMetrics | None = None
    last: EpochMetrics | None = None
    lowest_train_loss: float = math.inf

    @classmethod
    def of(cls, history: Iterable[EpochMetrics]) -> "Progress":
        """Return the values after all epochs of a history."""
        return functools.reduce(cls.after, history, cls())

    def after(self, epoch: EpochMetrics) -> "Progress":
        """Return the values after another epoch."""
        best = epoch if self.best is None or epoch.val_loss < self.best.val_loss else self.best
        return Progress(self.epochs + 1, best, epoch, min(self.lowest_train_loss, epoch.train_loss))

    @property
    def lowest_val_loss(self) -> float:
        """The lowest validation loss, or infinity before the first epoch."""
        return self.best.val_loss if self.best else math.inf


def exported_epoch(progress: Progress, weights: str) -> EpochMetrics:
    """Return the epoch whose weights are exported for a value of `export_checkpoint`."""
    epoch = progress.last if weights == "last" else progress.best
    assert epoch
    return epoch


def is_complete(progress: Progress, config: ExperimentConfig, *, undecided: bool = False) -> bool:
    """Return whether training is complete.

    Training is complete after all epochs, at `target_val_loss`, or after `patience` epochs without improvement. It is
    not complete while initializations are tried.

    Args:
        progress: Epochs of the current initialization.
        config: Experiment.
        undecided: Result of `is_undecided`.
    """
    best, patience = progress.best, config.options.patience
    if undecided or best is None:
        return False
    if progress.epochs >= config.epochs:
        return True
    return best.val_loss <= _target_val_loss(config) or bool(patience and progress.epochs - best.epoch >= patience)


def trial_epochs(config: ExperimentConfig) -> int:
    """Return the number of epochs for which each of several initializations is tried, a tenth of all."""
    return math.ceil(config.epochs / 10)


def initializations(config: ExperimentConfig) -> int:
    """Return the number of initializations to try.

    The epochs of those that are not continued are at most those of training.
    """
    return min(config.options.num_initializations, 1 + config.epochs // trial_epochs(config))


def describe_search(config: ExperimentConfig) -> str:
    """Return the number of initializations to try and their epochs as text, or an empty string for one."""
    tried, given, epochs = initializations(config), config.options.num_initializations, trial_epochs(config)
    if given == 1:
        return ""
    limit = f" (num_initializations {given}: no more epochs than training itself)" if tried < given else ""
    return f"{tried} initializations for {epochs} {'epoch' if epochs == 1 else 'epochs'} each{limit}"


def epochs_left(config: ExperimentConfig, done: int = 0, tried: int = 0, *, has_leader: bool = False) -> int:
    """Return the remaining epochs of a training run over all initializations.

    Args:
        config: Experiment.
        done: Completed epochs of the current initialization.
        tried: Number of initializations that were tried completely.
        has_leader: As for `is_undecided`.
    """
    undecided = is_undecided(config, tried, has_leader=has_leader)
    others = max(0, initializations(config) - tried - 1) if undecided else 0
    return config.epochs - done + others * trial_epochs(config)


def is_undecided(config: ExperimentConfig, tried: int, *, has_leader: bool) -> bool:
    """Return whether the current initialization is being tried.

    This does not depend on the number of epochs, with which a complete training run may be continued.

    Args:
        config: Experiment.
        tried: Number of initializations that were tried completely.
        has_leader: Whether the best of them is stored next to the current one.
    """
    return has_leader or (tried == 0 and config.options.num_initializations > 1)


def plateau(
    progress: Progress, labels: npt.NDArray[Any], config: ExperimentConfig, is_constant: Callable[[], bool]
) -> str | None:
    """Return a warning if the training loss is still near that of a constant prediction after a fifth of the epochs.

    Returns None at all other epochs, so that the warning appears once.

    Args:
        progress: Epochs of the current initialization.
        labels: Labels of the training samples.
        config: Experiment.
        is_constant: Returns whether all readouts are equal for all samples, so that no other values of fields help. Is
            called only for a warning.
    """
    if progress.epochs != max(_PLATEAU_EPOCH, math.ceil(config.epochs / 5)):
        return None
    lowest = progress.lowest_train_loss
    what, constant = ("entropy", _entropy(labels)) if config.is_classification else ("variance", float(np.var(labels)))
    if lowest < _PLATEAU_FRACTION * constant:
        return None
    advice = (
        "all readouts are equal for all samples; use another circuit"
        if is_constant()
        else f"try another learning_rate (now {config.learning_rate:g}), initialization or seed, or a larger "
        f"num_initializations (now {config.options.num_initializations})"
    )
    return (
        f"training has not improved: after {progress.epochs} epochs the lowest training loss is {lowest:.2f}, and the "
        f"label {what} is {constant:.2f}; {advice}"
    )


def _entropy(labels: npt.NDArray[Any]) -> float:
    """Return the entropy of the frequencies of classes, the lowest cross-entropy of a constant prediction."""
    _, counts = np.unique(labels, return_counts=True)
    frequencies = counts / len(labels)
    return float(-np.sum(frequencies * np.log(frequencies)))


def _target_val_loss(config: ExperimentConfig) -> float:
    """Return the validation loss at which training stops, or minus infinity if there is no target."""
    target = config.options.target
    if target is None:
        return -math.inf
    is_distance, value = target
    bound = error_bound(config.model, config.hidden_activation) if is_distance else None
    return value + (bound.mse if bound else 0.0)


def history_columns(*, has_accuracy: bool, has_staleness: bool) -> tuple[str, ...]:
    """Return the columns of a history file.

    Args:
        has_accuracy: Whether the epochs have accuracies, which a regression does not.
        has_staleness: Whether the epochs have the staleness of asynchronous training.
    """
    columns = _COLUMNS if has_staleness else _OF_ALL
    return tuple(name for name in columns if has_accuracy or name not in _ACCURACIES)


def to_csv(history: Iterable[EpochMetrics], columns: Sequence[str], *, header: bool) -> str:
    """Return the rows of epochs as CSV.

    Args:
        history: Epochs.
        columns: Names of the columns.
        header: Whether the first row has the names.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if header:
        writer.writerow(columns)
    writer.writerows([getattr(epoch, name) for name in columns] for epoch in history)
    return text.getvalue()


def from_csv(text: str) -> tuple[EpochMetrics, ...]:
    """Parse the content of a history file.

    Raises:
        ValueError: If a column is missing, a value is no finite number, or epochs do not count from 1.
    """
    rows = csv.DictReader(io.StringIO(text, newline=""))
    given = set(rows.fieldnames or ())
    names = _COLUMNS if given & {*_COLUMNS[len(_OF_ALL) :]} else _OF_ALL
    if missing := [name for name in names if name not in {*given, *_ACCURACIES}]:
        raise ValueError(f"it has no column {missing[0]}")
    return epochs_of([row.get(name) for name in names] for row in rows)


def epochs_of(rows: Iterable[Sequence[Any]]) -> tuple[EpochMetrics, ...]:
    """Parse epochs from rows of numbers or text, in the order of `EpochMetrics`.

    Rows of older checkpoints have no staleness.

    Raises:
        ValueError: If a value is no finite number, epochs do not count from 1, or a row has a wrong length.
    """
    history = tuple(map(epoch_of, rows))
    for number, epoch in enumerate(history, start=1):
        if epoch.epoch != number:
            raise ValueError(f"epoch {number} must be in row {number}")
    return history


def epoch_of(row: Sequence[Any]) -> EpochMetrics:
    """Parse an epoch from numbers or text, in the order of `EpochMetrics`.

    Raises:
        ValueError: If a value is no finite number, or the row has a wrong length.
    """
    names = _OF_ALL if len(row) == len(_OF_ALL) else _COLUMNS
    values: dict[str, Any] = {name: _value(name, value) for name, value in zip(names, row, strict=True)}
    if not all(math.isfinite(value) for value in values.values() if value is not None):
        raise ValueError(f"epoch {values['epoch']} must be a row of finite numbers")
    return EpochMetrics(**values)


def _value(name: str, value: Any) -> float | None:
    if value is None and name in _ACCURACIES:
        return None
    return int(value) if name in _COUNTS else float(value)


def epoch_seconds(history: Sequence[EpochMetrics]) -> float:
    """Return the median wall time of an epoch in seconds, without the first, which includes compilation."""
    return statistics.median([epoch.seconds for epoch in history[1:] or history])
