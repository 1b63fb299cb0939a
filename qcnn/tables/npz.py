"""Tables in archives of arrays, as np.savez writes them: never as code, and no array as a whole."""

import contextlib
import dataclasses
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from qcnn.errors import ArtifactError
from qcnn.tables.chunks import FINITE, Columns, Write, fault, first_fault, piece_rows

_ENDING = ".npy"
# Whole numbers with and without sign, floating point, true and false; and text.
_NUMBERS, _TEXT = "iufb", "U"
# The states of 15 qubits have 32,768 amplitudes.
_MOST_COLUMNS = 2**16
_MOST_MEMBERS = 2**16
# Bytes of a text, four of which are a character.
_MOST_TEXT = 2**12
# np.save writes newer versions for structures only, whose headers may have gigabytes.
_VERSION = (1, 0)
_WRITTEN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_CHUNK = 2**20
# Bytes of an array that may always be unpacked to disk, and how many times its size in the archive others may have.
_MOST_UNPACKED, _MOST_RATIO = 2**28, 100

# Takes a number of rows, and returns the next ones.
_Reader = Callable[[int], Columns]


@dataclasses.dataclass(frozen=True)
class _Array:
    """Where the values of an array are: `start` bytes into a member of the archive."""

    member: str
    start: int
    dtype: np.dtype[Any]
    rows: int
    columns: int | None
    by_column: bool

    @property
    def names(self) -> list[str]:
        name = self.member.removesuffix(_ENDING)
        return [name] if self.columns is None else [f"{name}_{column}" for column in range(self.columns)]


class ArraysFile:
    """An archive whose arrays (rows,) are columns; an array NAME of (rows, k) is the columns NAME_0 to NAME_k-1."""

    index = ()

    def __init__(self, path: Path) -> None:
        """Read the names of the columns and the number of rows.

        Raises:
            ArtifactError: an array is no column, or two have other numbers of rows.
            ValueError: the archive is damaged.
            zipfile.BadZipFile: likewise.
        """
        self._path = path
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
            if len(members) > _MOST_MEMBERS:
                raise ArtifactError(f"data: must have at most {_MOST_MEMBERS} arrays. Given: {len(members)}")
            self._arrays = [_described(archive, member) for member in members]
        counts = {array.rows for array in self._arrays}
        if len(counts) > 1:
            raise ArtifactError(f"data: every array must have as many rows. Given: {sorted(counts)}")
        self.names: Sequence[str] = [name for array in self._arrays for name in array.names]
        self.rows = counts.pop() if counts else 0
        if len(self.names) > _MOST_COLUMNS:
            raise ArtifactError(f"data: must have at most {_MOST_COLUMNS} columns. Given: {len(self.names)}")

    def read(self, names: Sequence[str], text: Collection[str]) -> Iterator[Columns]:
        """Yield pieces of some columns.

        Raises:
            ArtifactError: an array holds something else, or a value is not finite.
            ValueError: an array ends too early.
        """
        wanted = [array for array in self._arrays if not set(array.names).isdisjoint(names)]
        for array in wanted:
            _check_kind(array, is_text=not set(array.names).isdisjoint(text))
        rows = piece_rows(sum(len(array.names) for array in wanted))
        with contextlib.ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(self._path))
            readers = [stack.enter_context(_open_array(archive, array)) for array in wanted]
            for first in range(0, self.rows, rows):
                count = min(rows, self.rows - first)
                found = {name: column for reader in readers for name, column in reader(count).items()}
                yield {name: _checked(found[name], name, first) for name in names}

    def place(self, row: int) -> str:
        """Return what names a row; the first is 1."""
        return f"row {row}"


@contextlib.contextmanager
def write_arrays(path: Path) -> Iterator[Write]:
    """Yield what writes rows into a new archive, an array (rows,) a column.

    An archive holds one array after the other, each behind its length: until the end they are kept in files that have
    no name.
    """
    with contextlib.ExitStack() as stack:
        kept: dict[str, tuple[IO[bytes], np.dtype[Any]]] = {}

        def write(columns: Columns) -> None:
            for name, column in columns.items():
                if name not in kept:
                    kept[name] = stack.enter_context(tempfile.TemporaryFile(dir=path.parent)), column.dtype
                kept[name][0].write(column.tobytes())

        yield write
        with zipfile.ZipFile(path, "w") as archive:
            for name, (file, dtype) in kept.items():
                _copy(archive, name, file, dtype)


def _copy(archive: zipfile.ZipFile, name: str, file: IO[bytes], dtype: np.dtype[Any]) -> None:
    described = {
        "descr": dtype.str,
        "fortran_order": False,
        "shape": (file.tell() // dtype.itemsize,),
    }
    file.seek(0)
    # Of no date, so that equal tables are equal files.
    with archive.open(zipfile.ZipInfo(f"{name}{_ENDING}"), "w", force_zip64=True) as member:
        npy.write_array_header_1_0(member, described)  # type: ignore[no-untyped-call]
        shutil.copyfileobj(file, member, _CHUNK)


def _described(archive: zipfile.ZipFile, member: str) -> _Array:
    if not member.endswith(_ENDING) or archive.getinfo(member).compress_type not in _WRITTEN:
        raise ArtifactError(f"data: must hold arrays only, as np.savez writes them. Given: {member}")
    with archive.open(member) as file:
        if npy.read_magic(file) != _VERSION:  # type: ignore[no-untyped-call]
            raise ArtifactError(f"data: array {member} must hold numbers or text. Given: a structure")
        shape, by_column, dtype = npy.read_array_header_1_0(file)  # type: ignore[no-untyped-call]
        start = file.tell()
    if len(shape) not in (1, 2) or shape[1:] == (0,):
        raise ArtifactError(f"data: array {member} must have the shape (rows,) or (rows, k). Given: {shape}")
    columns = shape[1] if len(shape) == 2 else None
    # Few columns in a row make no difference.
    return _Array(member, start, dtype, shape[0], columns, by_column and (columns or 1) > 1)


def _check_kind(array: _Array, *, is_text: bool) -> None:
    allowed, what = (_TEXT, "text") if is_text else (_NUMBERS, "numbers")
    if array.dtype.kind not in allowed or array.dtype.itemsize > _MOST_TEXT:
        raise ArtifactError(f"data: array {array.member} must hold {what}. Given: {array.dtype}")


@contextlib.contextmanager
def _open_array(archive: zipfile.ZipFile, array: _Array) -> Iterator[_Reader]:
    """Yield what reads the columns of an array in pieces."""
    width = len(array.names)
    with archive.open(array.member) as file:
        file.read(array.start)
        if not array.by_column:
            yield lambda rows: dict(
                zip(array.names, _values(file, array, rows * width).reshape(rows, width).T, strict=True)
            )
            return
        # A member of an archive cannot be read at several places at once.
        with tempfile.TemporaryFile() as kept:
            _check_unpacked(archive.getinfo(array.member))
            shutil.copyfileobj(file, kept, _CHUNK)
            yield _by_column(kept, array)


def _by_column(file: IO[bytes], array: _Array) -> _Reader:
    """Return what reads the columns of an array that stand one behind the other."""
    done = 0

    def read(rows: int) -> Columns:
        nonlocal done
        found = {}
        for number, name in enumerate(array.names):
            file.seek((number * array.rows + done) * array.dtype.itemsize)
            found[name] = _values(file, array, rows)
        done += rows
        return found

    return read


def _check_unpacked(member: zipfile.ZipInfo) -> None:
    """Refuse what would fill the disk once it is unpacked."""
    if member.file_size > max(_MOST_UNPACKED, _MOST_RATIO * member.compress_size):
        raise ArtifactError(
            f"data: array {member.filename} must not unpack to more than {_MOST_RATIO} times its size. "
            f"Given: {member.compress_size} bytes that unpack to {member.file_size}"
        )


def _values(file: IO[bytes], array: _Array, count: int) -> npt.NDArray[Any]:
    data = file.read(count * array.dtype.itemsize)
    if len(data) < count * array.dtype.itemsize:
        raise ValueError(f"array {array.member} ends too early")
    values = np.frombuffer(data, array.dtype)
    if array.dtype.kind in _TEXT:
        return values.astype(object)
    # What is larger than any float64 becomes infinite, which is refused.
    with np.errstate(over="ignore"):
        return values.astype(np.float64, copy=False)


def _checked(values: npt.NDArray[Any], name: str, first: int) -> npt.NDArray[Any]:
    if values.dtype != object and (row := first_fault(values)) is not None:
        raise fault(f"row {first + row + 1}", name, FINITE, values[row])
    return values
