"""Tables in text files, with bounded line length and line numbers in errors."""

import contextlib
import itertools
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from qcnn.errors import ArtifactError, format_value
from qcnn.tables.chunks import FINITE, NOTHING, TEXT, Columns, TableFile, columns_from_batch, value_error

# Maximum number of characters in a line; enough for about 200,000 numbers.
MAX_LINE = 2**22
# Bytes that pyarrow reads at a time.
BLOCK = 2**22
# Rows of a chunk when rows are parsed one by one.
_ROWS = 10_000


class TextFile(TableFile):
    """Table in a text file, read with pyarrow up to the first error.

    From there, rows are parsed one by one, because errors of pyarrow contain neither line nor value.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, names: Sequence[str], text: Collection[str]) -> Iterator[Columns]:
        """Yield chunks of columns. See `TableFile.read`."""
        done = 0
        with contextlib.suppress(pa.ArrowInvalid, ArtifactError):
            for batch in self._batches(names, text):
                columns = columns_from_batch(batch, names, text)
                if not all(np.isfinite(columns[name]).all() for name in names if name not in text):
                    break
                yield columns
                done += len(batch)
            else:
                return
        left = self._parse_rows_after(done, names, text)
        while some := list(itertools.islice(left, _ROWS)):
            yield {
                name: np.array(values, object if name in text else np.float64)
                for name, values in zip(names, zip(*some, strict=True), strict=True)
            }

    def place(self, row: int) -> str:
        """Return the first line of a row as a label. Rows are counted from 1."""
        return next((place for place, _ in itertools.islice(self._rows(), row - 1, None)), f"row {row}")

    def _batches(self, names: Sequence[str], text: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches from pyarrow.

        Raises:
            pa.ArrowInvalid: If pyarrow rejects a row or accepts an invalid one.
        """
        raise NotImplementedError

    def _rows(self) -> Iterator[tuple[str, Any]]:
        """Yield (label of the first line, content) of each row."""
        raise NotImplementedError

    def _parse_rows_after(self, done: int, names: Sequence[str], text: Collection[str]) -> Iterator[list[float | str]]:
        """Yield the parsed values of each row after the first `done` rows."""
        raise NotImplementedError

    def _parse_number(self, value: Any) -> float | str:
        """Return a value as a finite number, or as text for the error message if it is not one."""
        raise NotImplementedError

    def _parse_value(self, value: Any, place: str, name: str, text: Collection[str]) -> float | str:
        if name not in text:
            if isinstance(number := self._parse_number(value), str):
                raise value_error(place, name, FINITE, number)
            return number
        if not isinstance(value, str):
            raise value_error(place, name, TEXT, NOTHING if value is None else format_value(value))
        check_utf8(value, f"{place}, column {name}")
        return value


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file with their line ends.

    Raises:
        ArtifactError: If a line is too long.
        OSError: If the file cannot be read.
    """
    # surrogateescape maps invalid bytes to characters that `check_utf8` rejects.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        for number in itertools.count(1):
            line = file.readline(MAX_LINE + 1)
            if len(line) > MAX_LINE:
                raise ArtifactError(f"data: line {number}: must have at most {MAX_LINE} characters. Given: {line}")
            if not line:
                return
            yield line


def check_utf8(text: str, place: str) -> None:
    """Raise ArtifactError if text contains bytes that are not UTF-8.

    Args:
        text: Text that was decoded with surrogateescape.
        place: Label of the line, for the error message.

    Raises:
        ArtifactError: If it does.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArtifactError(f"data: {place}: must be text in UTF-8. Given: {text}") from None
