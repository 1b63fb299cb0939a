"""Labels of the rows of a data file: two classes as -1 and +1, several classes by number, or real numbers."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qcnn.data.samples import LABEL, Column, Labels
from qcnn.errors import ArtifactError, ConfigError, format_value
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.fields import MAX_CLASSES

if TYPE_CHECKING:
    from qcnn.tables.chunks import Chunk
    from qcnn.tables.table import Table

# The variance of squared errors has fourth powers, which must be finite.
_MAX_REAL_LABEL = 1e30
# Float64 does not distinguish larger whole numbers.
_MAX_WHOLE_LABEL = 2**53
# Names of classes are names of columns and metrics, too.
_MAX_NAME = 100
_NUMERIC_LABEL = "must be a number; write two classes as -1 and +1, or as 0 and 1"
# Number of names in messages.
_NAMED = 5


def check_real(piece: Chunk, column: str) -> None:
    """Raise ArtifactError at the first real label that is too large to compute errors.

    Raises:
        ArtifactError: If a label is invalid. The message has the row, its value and the allowed values.
    """
    allowed = np.abs(piece.columns[column]) <= _MAX_REAL_LABEL
    piece.check(column, allowed, f"must be from -{_MAX_REAL_LABEL:g} to {_MAX_REAL_LABEL:g}")


def first_text_label(table: Table) -> ArtifactError | None:
    """Return the error for the first label that is text instead of a number, or None if all are numbers."""
    from qcnn.tables.chunks import value_error

    # Columns of numbers in Parquet and npz files cannot be read as text.
    with contextlib.suppress(ArtifactError):
        for piece in table.pieces((LABEL,), (LABEL,)):
            for row, value in enumerate(piece.columns[LABEL], piece.first):
                if value.strip() and not _is_number(value):
                    return value_error(piece.place(row), LABEL, _NUMERIC_LABEL, value)
    return None


def has_number_label(table: Table) -> bool:
    """Return whether a label of a table whose labels are text is a number."""
    return any(_is_number(value) for piece in table.pieces((LABEL,), (LABEL,)) for value in piece.columns[LABEL])


def read_labels(
    rows: Chunk, train: npt.NDArray[np.int64], config: ExperimentConfig
) -> tuple[Labels, tuple[str, ...], npt.NDArray[Any]]:
    """Return the type of the labels, the names of their classes, and the labels as those of `Samples`.

    Args:
        rows: Rows, whose labels are numbers or text.
        train: Indices of the rows of the training split.
        config: Experiment.

    Raises:
        ArtifactError: If a label is invalid, or a class has no row in the training split.
        ConfigError: If the experiment has another number of classes.
    """
    label = rows.columns[LABEL]
    if config.is_classification:
        names, numbers = _classes(rows)
        _check_number(names, config)
        missing = np.setdiff1d(np.arange(len(names)), numbers[train])
        if len(missing):
            raise ArtifactError(
                f"data: each class must have a row in the training split. Given: none of {names[missing[0]]}"
            )
        return "classes", names, numbers
    if label.dtype == object:
        names, numbers = _classes(rows)
        if len(names) > 2:
            raise ArtifactError(
                "data: labels that are text must be two classes with loss mse; use loss cross_entropy for more. "
                f"Given: {format_names(names)} in {config.data}"
            )
        _check_differ(np.array(names, object)[numbers][train])
        return "names", names, np.where(numbers > 0, 1, -1).astype(np.int8)
    labels = _type_of(label)
    if labels == "real":
        check_real(rows, LABEL)
    _check_differ(label[train], is_real=labels == "real")
    return labels, (), label if labels == "real" else np.where(label > 0, 1, -1).astype(np.int8)


def text_columns(classes: Sequence[str]) -> tuple[str, ...]:
    """Return the column of the labels if it must be read as text, because the names of classes are no numbers."""
    return () if all(_is_whole(name) for name in classes) else (LABEL,)


def comparable_labels(piece: Chunk, labels: Labels, classes: Sequence[str]) -> Column:
    """Return the labels of rows for comparison with predictions: -1 and +1, numbers of classes, or real numbers.

    Args:
        piece: Rows with labels: text if the classes have names, else numbers.
        labels: Type of the labels of training.
        classes: Names of the classes of training.

    Raises:
        QcnnError: If a label is invalid. The message has the row, its value and the allowed values.
    """
    label = piece.columns[LABEL]
    match labels:
        case "signs":
            piece.check(LABEL, np.abs(label) == 1, "must be -1 or +1, as in training")
        case "zero_one":
            piece.check(LABEL, (label == 0) | (label == 1), "must be 0 or 1, as in training")
            return np.where(label > 0, 1.0, -1.0)
        case "real":
            check_real(piece, LABEL)
        case "names" | "classes":
            numbers = {name: float(number) for number, name in enumerate(classes)}
            found = np.array([numbers.get(class_name(value), -1.0) for value in label])
            piece.check(LABEL, found >= 0, f"must be a class of training: {format_names(classes)}")
            return found if labels == "classes" else 2 * found - 1
    return label


def format_names(names: Sequence[str]) -> str:
    """Return the first names as text, and the number of the others."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(str, names[:_NAMED])) + more


def _classes(rows: Chunk) -> tuple[tuple[str, ...], npt.NDArray[np.int8]]:
    """Return the names of the classes in order, numbers by value and texts by code point, and the class of each row."""
    label = rows.columns[LABEL]
    if label.dtype == object:
        label = np.array([value.strip() for value in label], object)
        is_name = np.array([value.isprintable() and 0 < len(value) <= _MAX_NAME for value in label])
        rows.check(LABEL, is_name, f"must be printable text of 1 to {_MAX_NAME} characters")
    else:
        is_exact = (label == np.floor(label)) & (np.abs(label) < _MAX_WHOLE_LABEL)
        allowed = (
            f"must be a whole number or text with loss cross_entropy, numbers less than {_MAX_WHOLE_LABEL} in size"
        )
        rows.check(LABEL, is_exact, allowed)
    values, numbers = np.unique(label, return_inverse=True)
    if not 2 <= len(values) <= MAX_CLASSES:
        raise ArtifactError(f"data: must have 2 to {MAX_CLASSES} classes. Given: {len(values)}")
    return tuple(map(class_name, values)), numbers.astype(np.int8)


def class_name(value: str | float) -> str:
    """Return the name of the class of a label: the text without surrounding spaces, or a whole number as text."""
    if isinstance(value, str):
        return value.strip()
    return str(int(value)) if float(value).is_integer() else str(value)


def _check_number(names: Sequence[str], config: ExperimentConfig) -> None:
    if config.options.classes not in (0, len(names)):
        raise ConfigError(
            f"classes: must be {len(names)} as in the data, or 0. Given: {config.options.classes} with {config.data}"
        )
    if config.options.head == "expectation" and len(names) > 2:
        raise ConfigError(f"head: must be auto or dense with {len(names)} classes. Given: {config.options.head}")


def _type_of(label: Column) -> Labels:
    values = set(itertools.islice(np.unique(label).tolist(), 3))
    if values <= {-1.0, 1.0}:
        return "signs"
    return "zero_one" if values <= {0.0, 1.0} else "real"


def _check_differ(label: npt.NDArray[Any], *, is_real: bool = False) -> None:
    """Raise ArtifactError if all labels of the training split are equal."""
    if len(values := np.unique(label)) < 2:
        what = "labels must differ" if is_real else "both labels must be"
        value = f"{values[0]:g}" if isinstance(values[0], float) else format_value(values[0])
        raise ArtifactError(f"data: {what} in the training split. Given: {value} in all of its {len(label)} rows")


def _is_whole(name: str) -> bool:
    return _is_number(name) and float(name).is_integer() and class_name(float(name)) == name


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
