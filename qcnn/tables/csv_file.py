"""Tables in CSV files, whose first line names the columns."""

import contextlib
import csv
import io
import itertools
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import csv as arrow_csv

from qcnn.errors import ArtifactError
from qcnn.tables.chunks import FINITE, NOTHING, Columns, Write, fault, finite
from qcnn.tables.text import BLOCK, LONGEST, check_utf8, joined, open_lines, read_carefully

_QUOTE = b'"'
# Bytes behind the last value: a quote and the ends of lines; more of these are looked at by rows.
_ENDS = 2**10
# Stands after the last line; no file in UTF-8 has it, nor what is read of one that is none.
_AFTER = "\ud800"


class CsvFile:
    """A CSV file. A row may take several lines where a text has line breaks; empty lines are none."""

    rows = None
    index = ()

    def __init__(self, path: Path) -> None:
        """Read the names of the columns.

        Raises:
            ArtifactError: there are none.
        """
        self._path = path
        with _open_records(path) as records:
            place, names = next(records, ("line 1", []))
        if not names:
            raise ArtifactError(f"data: {place}: must name the columns. Given: {NOTHING}")
        self.names: Sequence[str] = names

    def read(self, names: Sequence[str], text: Collection[str]) -> Iterator[Columns]:
        """Yield pieces of some columns.

        Raises:
            ArtifactError: a row has too few or too many values, or one that is no number.
        """
        return read_carefully(self._blocks(names, text), lambda done: self._rows_after(done, names, text), names, text)

    def place(self, row: int) -> str:
        """Return the line that a row begins in; the first row is 1."""
        with _open_records(self._path) as records:
            return next((place for number, (place, _) in enumerate(records) if number == row), f"row {row}")

    def _blocks(self, names: Sequence[str], text: Collection[str]) -> Iterator[pa.RecordBatch]:
        types = {name: pa.string() if name in text else pa.float64() for name in names}
        with arrow_csv.open_csv(
            self._path,
            read_options=arrow_csv.ReadOptions(block_size=BLOCK),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types, include_columns=list(names), null_values=[""], strings_can_be_null=False
            ),
        ) as reader:
            yield from reader
        if self._ends_within_quotes():
            raise pa.ArrowInvalid("a quote is not closed")

    def _ends_within_quotes(self) -> bool:
        """Whether the last value is quoted up to the end of the file, which pyarrow takes for the quote's end."""
        with self._path.open("rb") as file:
            if not any(_QUOTE in chunk for chunk in iter(lambda: file.read(BLOCK), b"")):
                return False
            value = _QUOTE + self._last_value().replace(_QUOTE, 2 * _QUOTE)
            file.seek(-min(len(value) + _ENDS, file.seek(0, os.SEEK_END)), os.SEEK_END)
            tail = file.read()
        return tail.endswith(value) and not tail.rstrip(b"\r\n").endswith(value + _QUOTE)

    def _last_value(self) -> bytes:
        """Return the last value of the last column, without the quotes around it."""
        # By its number: names may stand twice.
        name = f"f{len(self.names) - 1}"
        with arrow_csv.open_csv(
            self._path,
            read_options=arrow_csv.ReadOptions(block_size=BLOCK, autogenerate_column_names=True),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types={name: pa.binary()}, include_columns=[name]),
        ) as reader:
            last = b""
            for batch in reader:
                last = batch.column(0)[len(batch) - 1].as_py() if len(batch) else last
        return last

    def _rows_after(self, done: int, names: Sequence[str], text: Collection[str]) -> Iterator[Sequence[object]]:
        positions = {name: self.names.index(name) for name in names}
        with _open_records(self._path) as records:
            # The first names the columns.
            for place, values in itertools.islice(records, 1 + done, None):
                if len(values) != len(self.names):
                    raise ArtifactError(
                        f"data: {place}: must have {len(self.names)} values, as many as the first line has names. "
                        f"Given: {len(values)}"
                    )
                yield [_value(values[position], place, name, text) for name, position in positions.items()]


@contextlib.contextmanager
def write_csv(path: Path) -> Iterator[Write]:
    """Yield what writes rows into a new file, the names of the columns first."""
    with path.open("wb") as file:

        def write(columns: Columns) -> None:
            if not file.tell():
                head = io.StringIO()
                csv.writer(head, lineterminator="\n").writerow(columns)
                file.write(head.getvalue().encode())
            file.write(joined(["", *[","] * (len(columns) - 1)], columns, "\n"))

        yield write


@contextlib.contextmanager
def _open_records(path: Path) -> Iterator[Iterator[tuple[str, list[str]]]]:
    """Yield the values of all rows, the names of the columns first, each after the line that it begins in."""
    csv.field_size_limit(LONGEST)
    with open_lines(path) as lines:
        yield _records(lines)


def _records(lines: Iterator[str]) -> Iterator[tuple[str, list[str]]]:
    reader = csv.reader(itertools.chain(lines, [_AFTER]))
    while True:
        place = f"line {reader.line_num + 1}"
        try:
            values = next(reader, None)
        except csv.Error as error:
            raise ArtifactError(f"data: {place}: must be a row of CSV. Given: {error}") from None
        if values is None or values == [_AFTER]:
            return
        if values and values[-1].endswith(_AFTER):
            raise ArtifactError(f"data: {place}: a quote must be closed. Given: a row up to the end of the file")
        # pyarrow takes empty lines for none, too.
        if values:
            yield place, values


def _value(value: str, place: str, name: str, text: Collection[str]) -> object:
    if name in text:
        check_utf8(value, f"{place}, column {name}")
        return value
    if (number := finite(value)) is None:
        raise fault(place, name, FINITE, value.strip() or NOTHING)
    return number
