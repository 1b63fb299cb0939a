"""Lines of a text file that somebody else may have made: of bounded length, each with its number."""

import contextlib
import itertools
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from qcnn.errors import ArtifactError, format_value
from qcnn.tables.chunks import FINITE, NOTHING, TEXT, Columns, TableFile, columns_from_batch, value_error

# Characters of a line; a row of some 200,000 numbers has them.
MAX_LINE = 2**22
# Bytes that pyarrow reads at a time.
BLOCK = 2**22
# Rows of a piece where each is read by itself.
_ROWS = 10_000


class TextFile(TableFile):
    """A table in lines: pyarrow reads it as far as it can; from there on each row is read, and named, by itself."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, names: Sequence[str], text: Collection[str]) -> Iterator[Columns]:
        """Yield pieces of some columns."""
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
        """Return the line that a row begins in; the first row is 1."""
        return next((place for place, _ in itertools.islice(self._rows(), row - 1, None)), f"row {row}")

    def _batches(self, names: Sequence[str], text: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield rows as pyarrow reads them; ArrowInvalid where it cannot, or takes for a row what is none."""
        raise NotImplementedError

    def _rows(self) -> Iterator[tuple[str, Any]]:
        """Yield what a row is made of, each after the line that it begins in."""
        raise NotImplementedError

    def _parse_rows_after(self, done: int, names: Sequence[str], text: Collection[str]) -> Iterator[list[float | str]]:
        """Yield the `_parse_value` of some columns in each row after so many."""
        raise NotImplementedError

    def _parse_number(self, value: Any) -> float | str:
        """Return the finite number that a value is, or what is shown of one that is none."""
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
    """Yield the lines of a file with their ends, whichever those are.

    Raises:
        ArtifactError: a line is too long.
        OSError: the file cannot be read.
    """
    # What is not UTF-8 is read as characters that UTF-8 does not have.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        for number in itertools.count(1):
            line = file.readline(MAX_LINE + 1)
            if len(line) > MAX_LINE:
                raise ArtifactError(f"data: line {number}: must have at most {MAX_LINE} characters. Given: {line}")
            if not line:
                return
            yield line


def check_utf8(text: str, place: str) -> None:
    """Refuse a line, or a part of one, whose bytes are not UTF-8.

    Raises:
        ArtifactError: they are not.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArtifactError(f"data: {place}: must be text in UTF-8. Given: {text}") from None
