"""CSV tables. The first line contains the column names, with or without surrounding spaces."""

import contextlib
import csv
import io
import itertools
import math
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import pyarrow as pa
from pyarrow import csv as arrow_csv

from qcnn.errors import ArtifactError
from qcnn.tables.chunks import NOTHING, Columns, Write, write_batches
from qcnn.tables.text import BLOCK, MAX_LINE, TextFile, read_lines

# Appended as the last line. Neither UTF-8 text nor invalid bytes read with surrogateescape contain this character.
_END = "\ud800"
# Fields of a row that is appended for pyarrow, because pyarrow accepts the end of the file as the end of a quote.
_LAST_FIELD = "\x1a"
# Begins the first line of files for Excel.
_SEPARATOR = "sep="
# Booleans as pandas and R write them to CSV, compared without case. Parquet and npz give the same numbers.
_BOOLEANS = {"true": 1.0, "false": 0.0}


class CsvFile(TextFile):
    """CSV file. Text with line breaks spans several lines. Empty lines are ignored."""

    def __init__(self, path: Path) -> None:
        """Read the names of the columns.

        Raises:
            ArtifactError: If there are no names, or the first line is a spreadsheet's declaration of its separator.
        """
        super().__init__(path)
        # Names as in the file, by which pyarrow selects columns.
        place, self._header = next(_records(path), ("line 1", []))
        if not self._header:
            raise ArtifactError(f"data: {place}: must name the columns. Given: {NOTHING}")
        if (first := self._header[0]).lower().startswith(_SEPARATOR):
            line = ",".join(self._header)
            separator = first[len(_SEPARATOR) :] or ","
            what = "must be deleted" if separator == "," else f"must be deleted, and {separator} replaced by commas"
            raise ArtifactError(f"data: {place}: a separator declaration {what}. Given: {line}")
        self.names = [name.strip(" \t") for name in self._header]

    def _batches(self, names: Sequence[str], text: Collection[str]) -> Iterator[pa.RecordBatch]:
        headers = [self._header[self.names.index(name)] for name in names]
        types = {
            header: pa.string() if name in text else pa.float64() for header, name in zip(headers, names, strict=True)
        }
        last = ",".join([_LAST_FIELD] * len(self.names))
        with (
            self._path.open("rb") as file,
            arrow_csv.open_csv(
                extended := _ExtendedFile(file, f"\n{last}\n".encode()),
                read_options=arrow_csv.ReadOptions(block_size=BLOCK),
                parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=types,
                    include_columns=headers,
                    null_values=[_LAST_FIELD],
                    strings_can_be_null=False,
                ),
            ) as reader,
            _read_to_end(extended, reader),
        ):
            renamed = (batch.rename_columns(list(names)) for batch in filter(len, reader))
            for batch, after in itertools.pairwise(itertools.chain(renamed, [None])):
                if after is None:
                    *_, row = batch.slice(len(batch) - 1).to_pylist()
                    if row != {name: _LAST_FIELD if name in text else None for name in names}:
                        raise pa.ArrowInvalid("a quote is not closed")
                    batch = batch.slice(0, len(batch) - 1)
                yield batch

    def _rows(self) -> Iterator[tuple[str, list[str]]]:
        # The first record contains the column names.
        return itertools.islice(_records(self._path), 1, None)

    def _parse_rows_after(self, done: int, names: Sequence[str], text: Collection[str]) -> Iterator[list[float | str]]:
        positions = {name: self.names.index(name) for name in names}
        for place, row in itertools.islice(self._rows(), done, None):
            if len(row) != len(self.names):
                raise ArtifactError(
                    f"data: {place}: must have {len(self.names)} values, as many as the first line has names. "
                    f"Given: {len(row)}"
                )
            yield [self._parse_value(row[position], place, name, text) for name, position in positions.items()]

    def _parse_number(self, value: str) -> float | str:
        word = value.strip()
        if (truth := _BOOLEANS.get(word.lower())) is not None:
            return truth
        try:
            # float() also accepts 1_0.
            number = float(word) if value.isascii() and "_" not in word else math.nan
        except ValueError:
            number = math.nan
        return number if math.isfinite(number) else word or NOTHING


def write_csv(path: Path) -> AbstractContextManager[Write]:
    """Return a context manager that yields a function which writes rows to a new file."""
    return write_batches(path, _writer)


@contextlib.contextmanager
def print_csv(report: Callable[[str], None]) -> Iterator[Write]:
    """Yield a function that passes rows as text, without the last line end, to a callback. Names are the first line."""
    open_writer = _writer

    def write(columns: Columns) -> None:
        nonlocal open_writer
        batch, text = pa.record_batch(dict(columns)), io.BytesIO()
        with open_writer(text, batch.schema) as writer:
            writer.write_batch(batch)
        open_writer = _rows_writer
        report(text.getvalue().decode().removesuffix("\n"))

    yield write


def _writer(file: IO[bytes], schema: pa.Schema) -> arrow_csv.CSVWriter:
    # pyarrow quotes every column name.
    head = io.StringIO()
    csv.writer(head, lineterminator="\n").writerow(schema.names)
    file.write(head.getvalue().encode())
    return _rows_writer(file, schema)


def _rows_writer(file: IO[bytes], schema: pa.Schema) -> arrow_csv.CSVWriter:
    return arrow_csv.CSVWriter(file, schema, write_options=arrow_csv.WriteOptions(include_header=False))


class _ExtendedFile:
    """File followed by additional bytes. A thread of pyarrow reads it ahead."""

    closed = False

    def __init__(self, file: IO[bytes], more: bytes) -> None:
        self._files = [file, io.BytesIO(more)]
        self._lock = threading.Lock()

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes."""
        with self._lock:
            return next(filter(None, (file.read(size) for file in self._files)), b"")

    def end(self) -> None:
        """Wait for a read in progress. Later reads return the end of the file."""
        # Before the lock is taken, because the reading thread may take it again at once.
        self._files = []
        with self._lock:
            pass

    def close(self) -> None:
        """Do nothing. The caller closes the file."""


@contextlib.contextmanager
def _read_to_end(file: _ExtendedFile, reader: arrow_csv.CSVStreamingReader) -> Iterator[None]:
    """Context manager that ends the reading ahead of pyarrow, also if the block stops early.

    pyarrow's thread would read until the end of the file even after the reader is closed, and would abort the process
    if the interpreter exits in the meantime.
    """
    try:
        yield
    finally:
        file.end()
        with contextlib.suppress(pa.ArrowInvalid):
            for _ in reader:
                pass


def _records(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (label of the first line, values) of each row, starting with the column names."""
    csv.field_size_limit(MAX_LINE)
    reader = csv.reader(itertools.chain(read_lines(path), [_END]))
    while True:
        place = f"line {reader.line_num + 1}"
        try:
            values = next(reader, None)
        except csv.Error as error:
            raise ArtifactError(f"data: {place}: must be a CSV row. Given: {error}") from None
        if values is None or values == [_END]:
            return
        if values and values[-1].endswith(_END):
            raise ArtifactError(f"data: {place}: a quote must be closed. Given: a row up to the end of the file")
        # pyarrow ignores empty lines, too.
        if values:
            yield place, values
