"""Tables in Parquet files."""

import contextlib
import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types
from pyarrow.parquet import ColumnChunkMetaData
from pyarrow.parquet import ParquetFile as ArrowFile
from pyarrow.parquet import ParquetWriter as ArrowWriter

from qcnn.errors import ArtifactError
from qcnn.tables.chunks import FINITE, NOTHING, Columns, Write, fault, first_fault, piece_rows

# Bytes that are read at a time from each column; otherwise those of whole row groups would be kept.
_BUFFER = 2**20
# A page is unpacked as a whole. A column of a group of rows has more bytes than these only where rows are many, and
# then they are not a hundred times those that it takes in the file.
_MOST_UNPACKED = 2**28
_MOST_RATIO = 100


class ParquetFile:
    """A Parquet file with columns of numbers and text."""

    def __init__(self, path: Path) -> None:
        """Read the names of the columns, which of them are the index of a pandas table, and the number of rows.

        Raises:
            pa.ArrowException: it is damaged; pyarrow raises OSError for some damage.
        """
        self._path = path
        with ArrowFile(path) as file:
            self.names: Sequence[str] = file.schema_arrow.names
            self.rows = file.metadata.num_rows
            self.index: Sequence[str] = _index(file.schema_arrow)

    def read(self, names: Sequence[str], text: Collection[str]) -> Iterator[Columns]:
        """Yield pieces of some columns.

        Raises:
            ArtifactError: a column is of another type, or a value is missing or not finite.
        """
        done = 0
        with ArrowFile(self._path, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True) as file:
            for name in names:
                self._check(file, name, name in text)
            rows = piece_rows(len(names))
            for batch in file.iter_batches(rows, columns=list(names), use_threads=False):
                yield {name: (_texts if name in text else _numbers)(batch.column(name), name, done) for name in names}
                done += len(batch)

    def place(self, row: int) -> str:
        """Return what names a row; the first is 1."""
        return f"row {row}"

    def _check(self, file: ArrowFile, name: str, is_text: bool) -> None:
        """Refuse a column of another type, and one that unpacks to far more bytes than it has in the file."""
        kind = file.schema_arrow.field(name).type
        if types.is_dictionary(kind):
            kind = kind.value_type
        if is_text:
            if not (types.is_string(kind) or types.is_large_string(kind)):
                raise ArtifactError(f"data: column {name}: must hold text. Given: {kind}")
            return
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise ArtifactError(f"data: column {name}: must hold numbers. Given: {kind}")
        for chunk in _chunks(file, name):
            unpacked, packed = chunk.total_uncompressed_size, chunk.total_compressed_size
            if unpacked > max(_MOST_UNPACKED, _MOST_RATIO * packed):
                raise ArtifactError(
                    f"data: column {name}: must not unpack to more than {_MOST_RATIO} times its size. "
                    f"Given: {packed} bytes that unpack to {unpacked}"
                )


@contextlib.contextmanager
def write_parquet(path: Path) -> Iterator[Write]:
    """Yield what writes rows into a new file, a group of rows a piece."""
    with path.open("wb") as file, contextlib.ExitStack() as stack:
        writers: list[ArrowWriter] = []

        def write(columns: Columns) -> None:
            batch = pa.record_batch(dict(columns))
            if not writers:
                writers.append(stack.enter_context(ArrowWriter(file, batch.schema, write_page_checksum=True)))
            writers[0].write_batch(batch)

        yield write


def _index(schema: pa.Schema) -> list[str]:
    """Return the columns that pandas' metadata call the index of its table; a range is no column."""
    try:
        columns = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
        return [name for name in columns if isinstance(name, str) and name in schema.names]
    # Of a file without such metadata, or with others.
    except (KeyError, TypeError, ValueError, RecursionError):
        return []


def _chunks(file: ArrowFile, name: str) -> Iterator[ColumnChunkMetaData]:
    for group in range(file.metadata.num_row_groups):
        row_group = file.metadata.row_group(group)
        for position in range(row_group.num_columns):
            if (chunk := row_group.column(position)).path_in_schema == name:
                yield chunk


def _numbers(column: pa.Array, name: str, done: int) -> npt.NDArray[np.float64]:
    _check_missing(column, name, done, FINITE)
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    if (row := first_fault(values)) is not None:
        raise fault(f"row {done + row + 1}", name, FINITE, values[row])
    return values


def _texts(column: pa.Array, name: str, done: int) -> npt.NDArray[Any]:
    _check_missing(column, name, done, "must be text")
    return np.array(column.to_pylist(), object)


def _check_missing(column: pa.Array, name: str, done: int, what: str) -> None:
    if column.null_count:
        row = int(np.argmin(column.is_valid().to_numpy(zero_copy_only=False)))
        raise fault(f"row {done + row + 1}", name, what, NOTHING)
