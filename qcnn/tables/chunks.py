"""Chunks of table rows, the interface of table formats, and errors of single values."""

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from qcnn.errors import ArtifactError, QcnnError

# Maximum numbers of rows and of values in a chunk.
_MAX_ROWS = 2**17
_MAX_VALUES = 2**22
# Above this number, float64 does not represent every integer.
_MAX_EXACT_INTEGER = 2.0**53
# Data of up to this size in bytes may always be unpacked. Larger data may have at most this ratio to its packed size.
_MAX_UNPACKED, _MAX_RATIO = 2**28, 100
FINITE, TEXT = "must be a finite number", "must be text"
# Text for a missing value in messages.
NOTHING = "nothing"

Columns = Mapping[str, npt.NDArray[Any]]
# Function that writes the next rows of a file.
Write = Callable[[Columns], None]


class TableFile:
    """Interface of a table format.

    Attributes:
        names: Names of the columns.
        rows: Number of rows, or None if it is unknown before reading.
        index: Columns that pandas wrote as the index of its table; they contain no data.
    """

    names: Sequence[str]
    rows: int | None = None
    index: Sequence[str] = ()

    def read(self, names: Sequence[str], text: Collection[str]) -> Iterator[Columns]:
        """Yield chunks of columns with any number of rows.

        Numbers are float64 and may be infinite or NaN. Text columns are object arrays.

        Args:
            names: Columns to read.
            text: Columns that contain text.

        Raises:
            ArtifactError: If a column has another type, a row is invalid or a value is missing.
            Exception: If the file is damaged. The type depends on the library that reads the format.
        """
        raise NotImplementedError

    def place(self, row: int) -> str:
        """Return the label of a row for messages. Rows are counted from 1."""
        return f"row {row}"


def value_error(place: str, column: str, what: str, value: object) -> ArtifactError:
    """Return the error for an invalid value of a file.

    Args:
        place: Label of the row.
        column: Name of the column, or "" if the whole row is invalid.
        what: Requirement, such as "must be a finite number".
        value: Invalid value.
    """
    where = f"{place}, column {column}" if column else place
    return ArtifactError(f"data: {where}: {what}. Given: {value}")


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a table.

    Attributes:
        first: Number of the first row, from 1.
        columns: Values by column, (rows,), float64 or, for text, objects.
        place: Function from a row's number to its label in messages, such as "line 17".
        error: Function of the row's label, the column or "", the requirement and the invalid value, which returns the
            error of an invalid row.
    """

    first: int
    columns: Columns
    place: Callable[[int], str]
    error: Callable[[str, str, str, object], QcnnError] = value_error

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def check(self, column: str, good: npt.NDArray[np.bool_], what: str) -> None:
        """Raise `error` for the first invalid row of a column.

        Args:
            column: Name of the column.
            good: Whether each row is valid, (rows,).
            what: Requirement for the message, such as "must be a finite number".

        Raises:
            QcnnError: If a row is invalid, by default an ArtifactError.
        """
        if not good.all():
            row = int(np.argmin(good))
            raise self.error(self.place(self.first + row), column, what, format_number(self.columns[column][row]))


def format_number(value: object) -> str:
    """Return a value of a column as text. Integers up to 2^53 have no decimal point."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_EXACT_INTEGER
    return str(int(value)) if is_whole else str(value) or NOTHING  # type: ignore[call-overload]


def rows_per_chunk(columns: int) -> int:
    """Return the maximum number of rows of a chunk with the given number of columns."""
    return max(1, min(_MAX_ROWS, _MAX_VALUES // max(1, columns)))


def check_unpacked(what: str, packed: int, unpacked: int) -> None:
    """Raise ArtifactError if data unpacks to far more bytes than it occupies in the file.

    Args:
        what: Name of the data, for the error message.
        packed: Bytes in the file.
        unpacked: Bytes after unpacking.

    Raises:
        ArtifactError: If the unpacked size exceeds 256 MiB and 100 times the packed size.
    """
    if unpacked > max(_MAX_UNPACKED, _MAX_RATIO * packed):
        raise ArtifactError(
            f"data: {what} must not unpack to more than {_MAX_RATIO} times its size. "
            f"Given: {packed} bytes that unpack to {unpacked}"
        )


def columns_from_batch(batch: pa.RecordBatch, names: Sequence[str], text: Collection[str], done: int = 0) -> Columns:
    """Return columns of a pyarrow batch as arrays.

    Args:
        batch: Batch of rows.
        names: Columns to return.
        text: Columns that contain text.
        done: Number of rows before the batch, for the error message.

    Raises:
        ArtifactError: If a value is missing.
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
    """Yield a function that writes rows to a new file with pyarrow.

    The first rows define the columns.

    Args:
        path: File to create.
        open_writer: Function that opens a pyarrow writer for a file and a schema.

    Yields:
        Function that writes the next rows.
    """
    with path.open("wb") as file, contextlib.ExitStack() as stack:
        writers: list[Any] = []

        def write(columns: Columns) -> None:
            batch = pa.record_batch(dict(columns))
            if not writers:
                writers.append(stack.enter_context(open_writer(file, batch.schema)))
            writers[0].write_batch(batch)

        yield write
