"""What is read of a table at a time, and what is said of a row that is wrong."""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from qcnn.errors import ArtifactError

# A piece has at most this many rows, and at most this many values.
_MOST_ROWS = 2**17
_MOST_VALUES = 2**22
# Above, not every whole number is a float.
_MOST_WHOLE = 2.0**53
FINITE = "must be a finite number"
# What stands in a message for a value that is not there.
NOTHING = "nothing"

# As Parquet and npz have them: what pandas and R write into CSV, in whatever case.
_TRUTH = {"true": 1.0, "false": 0.0}

Columns = Mapping[str, npt.NDArray[Any]]
# Takes the next rows of a file.
Write = Callable[[Columns], None]


@dataclasses.dataclass(frozen=True)
class Piece:
    """Rows that follow each other: columns (rows,), float64 or, of text, objects; the first row's number, from 1.

    `place` takes a row's number and returns what names it in a message, such as "line 17".
    """

    first: int
    columns: Columns
    place: Callable[[int], str]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def check(self, column: str, good: npt.NDArray[np.bool_], what: str) -> None:
        """Refuse the first row that is not good (rows,); `what` says what its value must be.

        Raises:
            ArtifactError: one is not good.
        """
        if not good.all():
            row = int(np.argmin(good))
            raise fault(self.place(self.first + row), column, what, written(self.columns[column][row]))


def fault(place: str, column: str, what: str, value: object) -> ArtifactError:
    """Return the error of a value in a table."""
    return ArtifactError(f"data: {place}, column {column}: {what}. Given: {value}")


def written(value: object) -> str:
    """Return a value of a column as a person writes it: whole numbers, as far as floats tell them, without a point."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= _MOST_WHOLE
    return str(int(value)) if is_whole else str(value) or NOTHING  # type: ignore[call-overload]


def piece_rows(columns: int) -> int:
    """Return how many rows a piece may have, of so many columns."""
    return max(1, min(_MOST_ROWS, _MOST_VALUES // max(1, columns)))


def finite(text: str) -> float | None:
    """Return the number that a text is, None if it is none or not finite; True is 1 and False 0.

    Python would take 1_0 for a number too.
    """
    if (truth := _TRUTH.get(text.strip().lower())) is not None:
        return truth
    try:
        number = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def first_fault(values: npt.NDArray[np.float64]) -> int | None:
    """Return the position of the first value (rows,) that is not finite, None if all are."""
    good = np.isfinite(values)
    return None if good.all() else int(np.argmin(good))


def columns_of(batch: pa.RecordBatch, text: Collection[str]) -> Columns | None:
    """Return the columns of a batch of float64 and text, None if a value is missing or not finite."""
    found: dict[str, npt.NDArray[Any]] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.null_count:
            return None
        found[name] = column.to_numpy(zero_copy_only=False)
        if name not in text and first_fault(found[name]) is not None:
            return None
    return found
