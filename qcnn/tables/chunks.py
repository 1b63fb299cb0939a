"""What is read of a table at a time, how it is written, and what is said of a row that is wrong."""

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from qcnn.errors import ArtifactError

# A piece has at most this many rows, and at most this many values.
_MAX_ROWS = 2**17
_MAX_VALUES = 2**22
# Above, not every whole number is a float.
_MAX_EXACT_INTEGER = 2.0**53
# Bytes that may always be unpacked at once, and how many times its size in the file anything else may have.
_MAX_UNPACKED, _MAX_RATIO = 2**28, 100
FINITE, TEXT = "must be a finite number", "must be text"
# What stands in a message for a value that is not there.
NOTHING = "nothing"

Columns = Mapping[str, npt.NDArray[Any]]
# Takes the next rows of a file.
Write = Callable[[Columns], None]


class TableFile:
    """What a format offers: the names of its columns, and pieces of some of them, of any number of rows.

    `rows` is None where only reading them would tell; `index` are the columns that are no data but the index of a table
    that pandas wrote.
    """

    names: Sequence[str]
    rows: int | None = None
    index: Sequence[str] = ()

    def read(self, names: Sequence[str], text: Collection[str]) -> Iterator[Columns]:
        """Yield pieces of some columns, float64 that may not be finite or, of text, objects.

        Raises:
            ArtifactError: a column is of another kind, a row is none, or a value is missing.
            Exception: the file is damaged, whatever the library that reads it makes of that.
        """
        raise NotImplementedError

    def place(self, row: int) -> str:
        """Return what names a row; the first is 1."""
        return f"row {row}"


@dataclasses.dataclass(frozen=True)
class Chunk:
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
            raise value_error(self.place(self.first + row), column, what, format_number(self.columns[column][row]))


def value_error(place: str, column: str, what: str, value: object) -> ArtifactError:
    """Return the error of a value in a table."""
    return ArtifactError(f"data: {place}, column {column}: {what}. Given: {value}")


def format_number(value: object) -> str:
    """Return a value of a column as a person writes it: whole numbers, as far as floats tell them, without a point."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_EXACT_INTEGER
    return str(int(value)) if is_whole else str(value) or NOTHING  # type: ignore[call-overload]


def rows_per_chunk(columns: int) -> int:
    """Return how many rows a piece may have, of so many columns."""
    return max(1, min(_MAX_ROWS, _MAX_VALUES // max(1, columns)))


def check_unpacked(what: str, packed: int, unpacked: int) -> None:
    """Refuse what unpacks to far more bytes than it has in the file.

    Raises:
        ArtifactError: it does.
    """
    if unpacked > max(_MAX_UNPACKED, _MAX_RATIO * packed):
        raise ArtifactError(
            f"data: {what} must not unpack to more than {_MAX_RATIO} times its size. "
            f"Given: {packed} bytes that unpack to {unpacked}"
        )


def columns_from_batch(batch: pa.RecordBatch, names: Sequence[str], text: Collection[str], done: int = 0) -> Columns:
    """Return columns of a batch that follows so many rows.

    Raises:
        ArtifactError: a value is missing.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    for name in names:
        column = batch.column(name)
        if column.null_count:
            row = done + int(np.argmin(column.is_valid().to_numpy(zero_copy_only=False))) + 1
            raise value_error(f"row {row}", name, TEXT if name in text else FINITE, NOTHING)
        values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
        found[name] = values if name in text else values.astype(np.float64, copy=False)
    return found


@contextlib.contextmanager
def write_batches(path: Path, open_writer: Callable[[IO[bytes], pa.Schema], Any]) -> Iterator[Write]:
    """Yield what writes rows into a new file by a writer of pyarrow, which is opened for the columns of the first."""
    with path.open("wb") as file, contextlib.ExitStack() as stack:
        writers: list[Any] = []

        def write(columns: Columns) -> None:
            batch = pa.record_batch(dict(columns))
            if not writers:
                writers.append(stack.enter_context(open_writer(file, batch.schema)))
            writers[0].write_batch(batch)

        yield write
