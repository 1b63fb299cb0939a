"""Tables in npz files, as np.savez writes them, read in chunks and without pickle."""

import contextlib
import dataclasses
import math
import shutil
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from qcnn.errors import ArtifactError
from qcnn.tables.chunks import Columns, TableFile, Write, check_unpacked, rows_per_chunk

_EXTENSION = ".npy"
# NumPy type codes: signed and unsigned integers, floating point and Boolean numbers; text.
_NUMBERS, _TEXT = "iufb", "U"
# State vectors of 15 qubits have 32,768 columns.
_MAX_COLUMNS = _MAX_MEMBERS = 2**16
# Maximum bytes of a text value; NumPy stores 4 bytes per character.
_MAX_TEXT = 2**12
# np.save uses later versions only for structured types, whose headers can have gigabytes.
_VERSION = (1, 0)
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_CHUNK = 2**20


@dataclasses.dataclass(frozen=True)
class _Array:
    """Array (rows,) or (rows, k) in an archive. Its values begin at byte `start` of the member."""

    member: str
    start: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    by_column: bool

    @property
    def names(self) -> list[str]:
        name = self.member.removesuffix(_EXTENSION)
        width = math.prod(self.shape[1:])
        return [f"{name}_{column}" for column in range(width)] if width > 1 else [name]

    def read(self, file: IO[bytes], first: int, count: int) -> npt.NDArray[Any]:
        """Read the columns of consecutive rows, (k, count).

        Args:
            file: File of the array's values.
            first: Index of the first row.
            count: Number of rows.
        """
        rows, width = self.shape[0], math.prod(self.shape[1:])
        if not self.by_column:
            return self._values(file, count * width).reshape(count, width).T
        columns = []
        for number in range(width):
            file.seek((number * rows + first) * self.dtype.itemsize)
            columns.append(self._values(file, count))
        return np.array(columns)

    def _values(self, file: IO[bytes], count: int) -> npt.NDArray[Any]:
        data = file.read(count * self.dtype.itemsize)
        if len(data) < count * self.dtype.itemsize:
            raise ValueError(f"array {self.member} ends too early")
        values = np.frombuffer(data, self.dtype)
        if self.dtype.kind in _TEXT:
            return values.astype(object)
        # Numbers beyond float64 become infinite, and the caller rejects infinite values.
        with np.errstate(over="ignore"):
            return values.astype(np.float64, copy=False)


class NpzFile(TableFile):
    """Npz archive of columns.

    An array (rows,) or (rows, 1) is one column. A larger array NAME of shape (rows, k) contains the columns NAME_0 to
    NAME_k-1.
    """

    def __init__(self, path: Path) -> None:
        """Read the names of the columns and the number of rows.

        Raises:
            ArtifactError: If a member is not an array of columns, or arrays have different numbers of rows.
            ValueError: If an array is damaged.
            zipfile.BadZipFile: If the archive is damaged.
        """
        self._path = path
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
            if len(members) > _MAX_MEMBERS:
                raise ArtifactError(f"data: must have at most {_MAX_MEMBERS} arrays. Given: {len(members)}")
            self._arrays = [_read_header(archive, member) for member in members]
        counts = {array.shape[0] for array in self._arrays}
        if len(counts) > 1:
            raise ArtifactError(f"data: all arrays must have the same number of rows. Given: {sorted(counts)}")
        self.names = [name for array in self._arrays for name in array.names]
        self._rows = self.rows = counts.pop() if counts else 0
        if len(self.names) > _MAX_COLUMNS:
            raise ArtifactError(f"data: must have at most {_MAX_COLUMNS} columns. Given: {len(self.names)}")

    def read(self, names: Sequence[str], text: Collection[str]) -> Iterator[Columns]:
        """Yield chunks of columns. See `TableFile.read`."""
        wanted = [array for array in self._arrays if not set(array.names).isdisjoint(names)]
        for array in wanted:
            allowed, what = (_NUMBERS, "numbers") if set(array.names).isdisjoint(text) else (_TEXT, "text")
            if array.dtype.kind not in allowed or array.dtype.itemsize > _MAX_TEXT:
                raise ArtifactError(f"data: array {array.member} must hold {what}. Given: {array.dtype}")
        most = rows_per_chunk(sum(len(array.names) for array in wanted))
        with contextlib.ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(self._path))
            files = [stack.enter_context(_open_values(archive, array)) for array in wanted]
            for first in range(0, self._rows, most):
                found: dict[str, npt.NDArray[Any]] = {}
                for array, file in zip(wanted, files, strict=True):
                    found |= zip(array.names, array.read(file, first, min(most, self._rows - first)), strict=True)
                yield {name: found[name] for name in names}


@contextlib.contextmanager
def write_npz(path: Path) -> Iterator[Write]:
    """Yield a function that writes rows to a new archive, with one array (rows,) per column.

    An archive stores one array after the other, each with its length first. Until all rows are written, columns are
    buffered in anonymous temporary files.
    """
    with contextlib.ExitStack() as stack:
        kept: dict[str, _WrittenColumn] = {}

        def write(columns: Columns) -> None:
            for name, column in columns.items():
                if name not in kept:
                    kept[name] = _WrittenColumn(stack.enter_context(tempfile.TemporaryFile(dir=path.parent)))
                kept[name].append(column.astype(str) if column.dtype.kind == "O" else column)

        yield write
        with zipfile.ZipFile(path, "w") as archive:
            for name, column in kept.items():
                _write_array(archive, name, column)


@dataclasses.dataclass
class _WrittenColumn:
    """Chunks of a column in a temporary file, of which those of texts have different item sizes."""

    file: IO[bytes]
    chunks: list[tuple[np.dtype[Any], int]] = dataclasses.field(default_factory=list)

    def append(self, column: npt.NDArray[Any]) -> None:
        """Write the next rows."""
        self.file.write(column.tobytes())
        self.chunks.append((column.dtype, len(column)))


def _write_array(archive: zipfile.ZipFile, name: str, column: _WrittenColumn) -> None:
    dtype = np.result_type(*(dtype for dtype, _ in column.chunks))
    described = {"descr": dtype.str, "fortran_order": False, "shape": (sum(rows for _, rows in column.chunks),)}
    column.file.seek(0)
    # ZipInfo without a date makes files of equal tables equal.
    with archive.open(zipfile.ZipInfo(f"{name}{_EXTENSION}"), "w", force_zip64=True) as member:
        npy.write_array_header_1_0(member, described)
        for written, rows in column.chunks:
            values = np.frombuffer(column.file.read(rows * written.itemsize), written)
            member.write(values.astype(dtype, copy=False).tobytes())


def _read_header(archive: zipfile.ZipFile, member: str) -> _Array:
    if not member.endswith(_EXTENSION) or archive.getinfo(member).compress_type not in _COMPRESSIONS:
        raise ArtifactError(f"data: must hold arrays only, as np.savez writes them. Given: {member}")
    with archive.open(member) as file:
        if npy.read_magic(file) != _VERSION:
            raise ArtifactError(f"data: array {member} must hold numbers or text. Given: a structure")
        shape, by_column, dtype = npy.read_array_header_1_0(file)
        if len(shape) not in (1, 2) or shape[1:] == (0,):
            raise ArtifactError(f"data: array {member} must have the shape (rows,) or (rows, k). Given: {shape}")
        # For a single column the order does not matter.
        return _Array(member, file.tell(), dtype, shape, by_column and math.prod(shape[1:]) > 1)


@contextlib.contextmanager
def _open_values(archive: zipfile.ZipFile, array: _Array) -> Iterator[IO[bytes]]:
    """Yield a file of an array's values. It is seekable if the array is stored by column."""
    with archive.open(array.member) as file:
        file.read(array.start)
        if not array.by_column:
            yield file
            return
        info = archive.getinfo(array.member)
        check_unpacked(f"array {array.member}", info.compress_size, info.file_size)
        # Seeking in a compressed member is slow: each step back unpacks it again from the start.
        with tempfile.TemporaryFile() as kept:
            shutil.copyfileobj(file, kept, _CHUNK)
            yield kept
