"""Open tables of any supported format to read or write them in chunks."""

import contextlib
import dataclasses
import errno
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from qcnn.errors import ArtifactError, format_value, single_line
from qcnn.input_files import NotAFileError, check_regular
from qcnn.storage.copies import local_file, new_file_copy
from qcnn.tables import STANDARD_STREAM, check_extension
from qcnn.tables.chunks import FINITE, NOTHING, Chunk, TableFile, Write, rows_per_chunk
from qcnn.tables.csv_file import CsvFile, write_csv
from qcnn.tables.jsonl import JsonlFile, write_jsonl
from qcnn.tables.npz import NpzFile, write_npz
from qcnn.tables.parquet import ParquetFile, write_parquet
from qcnn.tables.text import check_utf8

_STANDARD_INPUT = "standard input"
# Bytes of a read.
_CHUNK = 2**20
_FORMATS: dict[str, Callable[[Path], TableFile]] = {
    ".csv": CsvFile,
    ".parquet": ParquetFile,
    ".npz": NpzFile,
    ".jsonl": JsonlFile,
}


@dataclasses.dataclass(frozen=True)
class Table:
    """Open table.

    Attributes:
        address: Path or URI that was opened.
        path: Local file.
        names: Names of the columns.
        index: Columns that pandas wrote as the index of its table.
        rows: Number of rows, or None if it is unknown before reading.
    """

    address: str
    path: Path
    names: tuple[str, ...]
    index: tuple[str, ...]
    rows: int | None
    _file: TableFile

    def pieces(self, names: Collection[str] | None = None, text: Collection[str] = ()) -> Iterator[Chunk]:
        """Yield the rows in order, in chunks of a bounded number of values.

        Args:
            names: Columns to read, or None for all.
            text: Columns that contain text. The others contain numbers.

        Raises:
            ArtifactError: If a column is missing or its name is not unique, a value is missing or not a finite
                number, or the table has no rows.
        """
        wanted = self.names if names is None else tuple(names)
        self._check_names(wanted)
        first, most = 1, rows_per_chunk(len(wanted))
        with _translate_errors(self.address):
            for columns in self._file.read(wanted, text):
                count = len(next(iter(columns.values())))
                for start in range(0, count, most):
                    part = {name: column[start : start + most] for name, column in columns.items()}
                    piece = Chunk(first + start, part, self._file.place)
                    for name in wanted:
                        if name not in text:
                            piece.check(name, np.isfinite(part[name]), FINITE)
                    yield piece
                first += count
        if first == 1:
            raise ArtifactError(f"data: must hold at least one row. Given: {self.address}")

    def unused_index_warning(self, used: Collection[str]) -> str | None:
        """Return a warning with the pandas index columns that are ignored, or None if there are none."""
        names = [name for name in self.index if name not in used]
        return (
            f"data: index columns of a pandas table are ignored: {', '.join(names)} in {self.address}"
            if names
            else None
        )

    def _check_names(self, wanted: Sequence[str]) -> None:
        """Raise ArtifactError if a wanted column is missing or its name is not unique."""
        counts = Counter(self.names)
        for name in wanted:
            if name not in counts:
                known = ", ".join(self.names) or NOTHING
                raise ArtifactError(f"data: column {name} is missing. Given: {known} in {self.address}")
            if not name.strip():
                position = self.names.index(name) + 1
                raise ArtifactError(
                    f"data: column {position} must have a name. Given: {format_value(list(self.names))}"
                )
            if counts[name] > 1:
                raise ArtifactError(f"data: column names must be unique. Given: {name} twice")


@contextlib.contextmanager
def open_table(address: str) -> Iterator[Table]:
    r"""Open a table in a local file or in a bucket, from which it is copied to a temporary file.

    Files are not trusted: memory is bounded for any content, and no content is executed.

    Raises:
        ConfigError: If the file extension is unknown or access to the bucket is denied.
        ArtifactError: If the file cannot be read, is damaged or has no column names.

    >>> from pathlib import Path
    >>> _ = Path("data.csv").write_text("qubit,angle\n3,0.5\n0,-1.5\n")
    >>> with open_table("data.csv") as table:
    ...     [(piece.first, piece.columns["angle"].tolist()) for piece in table.pieces(["angle"])]
    [(1, [0.5, -1.5])]
    """
    ending = check_extension("data", address)
    with local_file(address) as path:
        yield _open_local(path, ending, address)


@contextlib.contextmanager
def open_input(address: str) -> Iterator[Table]:
    """Open the table of a command's input, which is CSV on standard input for the address "-".

    Standard input is copied to a temporary file first, because reading an error's line needs a second pass.

    Raises:
        ConfigError: If the file extension is unknown or access to the bucket is denied.
        ArtifactError: If the input cannot be read, is damaged or has no column names.
    """
    if address != STANDARD_STREAM:
        with open_table(address) as table:
            yield table
        return
    with tempfile.TemporaryDirectory(prefix="qcnn-") as folder:
        path = Path(folder, "standard-input.csv")
        with _translate_errors(_STANDARD_INPUT), path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, _CHUNK)
        yield _open_local(path, ".csv", _STANDARD_INPUT)


def _open_local(path: Path, ending: str, shown: str) -> Table:
    """Open the table in a local file.

    Args:
        path: File.
        ending: File extension of its format.
        shown: Name of the file in messages.

    Raises:
        ArtifactError: If the file cannot be read, is damaged or has no column names.
    """
    with _translate_errors(shown):
        check_regular(path)
        file = _FORMATS[ending](path)
        for position, name in enumerate(file.names, 1):
            check_utf8(name, f"column {position}")
    return Table(shown, path, tuple(file.names), tuple(file.index), file.rows, file)


@contextlib.contextmanager
def _translate_errors(shown: str) -> Iterator[None]:
    """Context manager that translates errors of reading to a single-line ArtifactError.

    Libraries raise errors of almost any type for a damaged file.

    Raises:
        ArtifactError: If the file cannot be read or is damaged.
    """
    try:
        yield
    except ArtifactError:
        raise
    except NotAFileError as error:
        raise ArtifactError(error.message("data", shown)) from None
    except Exception as error:
        # Libraries raise OSError for damage, too. Only errors of the operating system have an errno.
        if isinstance(error, OSError) and error.errno is not None:
            reason = "file not found" if error.errno == errno.ENOENT else single_line(error.strerror or error)
            raise ArtifactError(f"data: cannot be read ({reason}). Given: {shown}") from None
        raise ArtifactError(f"data: is damaged ({single_line(error) or NOTHING}). Given: {shown}") from None


_WRITERS: dict[str, Callable[[Path], AbstractContextManager[Write]]] = {
    ".csv": write_csv,
    ".parquet": write_parquet,
    ".npz": write_npz,
    ".jsonl": write_jsonl,
}


@contextlib.contextmanager
def new_table(address: str) -> Iterator[Write]:
    """Yield a function that writes the next rows of a new table. The file extension selects the format.

    All chunks have the same columns of numbers. The file is replaced atomically, or uploaded to its bucket, when the
    block completes without an error.

    Raises:
        ConfigError: If the file extension is unknown or access to the bucket is denied.
        ArtifactError: If the file cannot be written.

    >>> from pathlib import Path
    >>> import numpy as np
    >>> with new_table("new.csv") as write:
    ...     write({"qubit": np.array([3, 0]), "prediction": np.array([0.1, -0.5])})
    >>> Path("new.csv").read_text().split()
    ['qubit,prediction', '3,0.1', '0,-0.5']
    """
    check_extension("output", address)
    with new_file_copy(address) as path, write_table(path, address) as write:
        yield write


def write_table(path: Path, address: str) -> AbstractContextManager[Write]:
    """Return a context manager that yields a function which writes rows to a local file.

    The file is complete when the block ends.

    Args:
        path: File to write.
        address: Final path or URI. Its file extension selects the format.

    Raises:
        ConfigError: If the file extension is unknown.
    """
    return _WRITERS[check_extension("output", address)](path)
