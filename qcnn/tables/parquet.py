"""Parquet tables."""

import itertools
import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
from pyarrow import types
from pyarrow.parquet import FileMetaData
from pyarrow.parquet import ParquetFile as ArrowFile
from pyarrow.parquet import ParquetWriter as ArrowWriter

from qcnn.errors import ArtifactError
from qcnn.tables.chunks import (
    Columns,
    TableFile,
    Write,
    check_unpacked,
    columns_from_batch,
    rows_per_chunk,
    write_batches,
)

# Bytes to read from each column at a time. Without a buffer size, pyarrow keeps whole row groups in memory.
_BUFFER = 2**20


class ParquetFile(TableFile):
    """Parquet file with columns of numbers and text."""

    def __init__(self, path: Path) -> None:
        """Read the names of the columns, the pandas index columns and the number of rows.

        Raises:
            pa.ArrowException: If the file is damaged. pyarrow raises OSError for some damage.
        """
        self._path = path
        with ArrowFile(path) as file:
            self.names = file.schema_arrow.names
            self.rows = file.metadata.num_rows
            self.index = _index(file.schema_arrow)

    def read(self, names: Sequence[str], text: Collection[str]) -> Iterator[Columns]:
        """Yield chunks of columns. See `TableFile.read`."""
        done = 0
        with ArrowFile(self._path, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True) as file:
            for name in names:
                _check_type(file.schema_arrow.field(name).type, name, name in text)
            _check_sizes(file.metadata, set(names).difference(text))
            for batch in file.iter_batches(rows_per_chunk(len(names)), columns=list(names), use_threads=False):
                yield columns_from_batch(batch, names, text, done)
                done += len(batch)


def write_parquet(path: Path) -> AbstractContextManager[Write]:
    """Return a context manager that yields a function which writes one row group per call."""
    return write_batches(path, lambda file, schema: ArrowWriter(file, schema, write_page_checksum=True))


def _index(schema: pa.Schema) -> list[str]:
    """Return the index columns from the pandas metadata. A RangeIndex has no column."""
    try:
        columns = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
        return [name for name in columns if isinstance(name, str) and name in schema.names]
    # The metadata is missing or has another structure.
    except (KeyError, TypeError, ValueError, RecursionError):
        return []


def _check_type(kind: pa.DataType, name: str, is_text: bool) -> None:
    if types.is_dictionary(kind):
        kind = kind.value_type
    if is_text and not (types.is_string(kind) or types.is_large_string(kind)):
        raise ArtifactError(f"data: column {name}: must hold text. Given: {kind}")
    if not is_text and not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise ArtifactError(f"data: column {name}: must hold numbers. Given: {kind}")


def _check_sizes(file: FileMetaData, names: Collection[str]) -> None:
    """Raise ArtifactError if pages of columns may unpack to far more bytes than they occupy in the file.

    pyarrow unpacks a page as a whole. Other large column chunks have many rows and are read in batches.
    """
    for group, position in itertools.product(range(file.num_row_groups), range(file.num_columns)):
        chunk = file.row_group(group).column(position)
        if (name := chunk.path_in_schema) in names:
            check_unpacked(f"column {name}:", chunk.total_compressed_size, chunk.total_uncompressed_size)
