"""Tables in JSONL files: an object of JSON a line; the keys of the first one are the columns."""

import codecs
import contextlib
import itertools
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json

from qcnn.errors import ArtifactError, given
from qcnn.tables.chunks import FINITE, NOTHING, Columns, Write, fault
from qcnn.tables.text import BLOCK, LONGEST, check_utf8, joined, open_lines, read_carefully

# Parts of what is read at a time, which several cores take.
_PARTS = 4
_LINE_FEED, _SPACE = b"\n "


class JsonLines:
    """A JSONL file. Empty lines are none; keys that the first object does not have are left out."""

    rows = None
    index = ()

    def __init__(self, path: Path) -> None:
        """Read the names of the columns.

        Raises:
            ArtifactError: there is no first object, or it is none.
        """
        self._path = path
        with open_lines(path) as lines:
            place, line = next(_numbered(lines), ("", "{}"))
        self.names: Sequence[str] = list(_object(line, place))

    def read(self, names: Sequence[str], text: Collection[str]) -> Iterator[Columns]:
        """Yield pieces of some columns.

        Raises:
            ArtifactError: a line is no object, or has a value that is missing or no number.
        """
        return read_carefully(self._blocks(names, text), lambda done: self._rows_after(done, names, text), names, text)

    def place(self, row: int) -> str:
        """Return the line of a row; the first row is 1."""
        with open_lines(self._path) as lines:
            return next((place for number, (place, _) in enumerate(_numbered(lines), 1) if number == row), f"row {row}")

    def _blocks(self, names: Sequence[str], text: Collection[str]) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([(name, pa.string() if name in text else pa.float64()) for name in names])
        parse = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        read = arrow_json.ReadOptions(block_size=BLOCK // _PARTS)
        for lines in _whole_lines(self._path):
            found = arrow_json.read_json(pa.BufferReader(lines), read, parse)
            # It takes two objects on a line, and one on two lines, too.
            if len(found) != _count(lines):
                raise pa.ArrowInvalid("not an object a line")
            yield from found.combine_chunks().to_batches()

    def _rows_after(self, done: int, names: Sequence[str], text: Collection[str]) -> Iterator[Sequence[object]]:
        with open_lines(self._path) as lines:
            for place, line in itertools.islice(_numbered(lines), done, None):
                values = _object(line, place)
                yield [_value(values, place, name, text) for name in names]


@contextlib.contextmanager
def write_json_lines(path: Path) -> Iterator[Write]:
    """Yield what writes rows into a new file, an object each."""
    with path.open("wb") as file:

        def write(columns: Columns) -> None:
            before = [f"{json.dumps(name)}: " for name in columns]
            file.write(joined([f"{{{before[0]}", *(f", {text}" for text in before[1:])], columns, "}\n"))

        yield write


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the bytes of lines that follow each other, all but their last end with a line break.

    Raises:
        pa.ArrowInvalid: a line is too long.
    """
    with path.open("rb") as file:
        left = b""
        if (first := file.read(len(codecs.BOM_UTF8))) != codecs.BOM_UTF8:
            left = first
        while block := file.read(BLOCK):
            whole, end, rest = block.rpartition(b"\n")
            if whole or end:
                yield left + whole + end
                left = rest
            elif len(left) <= LONGEST:
                left += rest
            else:
                raise pa.ArrowInvalid("a line is too long")
        if left.strip():
            yield left


def _count(lines: bytes) -> int | None:
    """Return how many lines hold something; None where one may end otherwise than by a line feed."""
    if b"\r" in lines and lines.count(b"\r") != lines.count(b"\r\n"):
        return None
    values = np.frombuffer(lines, np.uint8)
    ends = values == _LINE_FEED
    # No printed character is less than a space; a line that begins with none may be empty.
    if (values[1:][ends[:-1]] <= _SPACE).any() or values[0] <= _SPACE:
        return sum(map(bool, map(bytes.strip, lines.split(b"\n"))))
    return int(np.count_nonzero(ends)) + (not ends[-1])


def _numbered(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    return ((f"line {number}", line) for number, line in enumerate(lines, 1) if line.strip())


def _object(line: str, place: str) -> Mapping[str, Any]:
    line = line.strip()
    check_utf8(line, place)
    try:
        values = json.loads(line, object_pairs_hook=_Values)
    # Python gives up where brackets are nested too deep, and on integers of thousands of digits.
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, _Values):
        raise ArtifactError(f"data: {place}: must be one object of JSON. Given: {line}")
    if values.is_ambiguous:
        raise ArtifactError(f"data: {place}: must have every key once. Given: {line}")
    return values


class _Values(dict[str, Any]):
    """The values of an object; it is ambiguous where a key stands twice."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.is_ambiguous = len(self) < len(pairs)


def _value(values: Mapping[str, Any], place: str, name: str, text: Collection[str]) -> object:
    value = values.get(name)
    if name in text:
        if not isinstance(value, str):
            raise fault(place, name, "must be text", NOTHING if value is None else given(value))
        return value
    # True and false are 1 and 0, as in the other formats.
    if not isinstance(value, int | float):
        raise fault(place, name, FINITE, NOTHING if value is None else given(value))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise fault(place, name, FINITE, given(value))
    return number
