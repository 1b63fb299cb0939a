"""Opens a table to read or to write it in pieces, whatever its format."""

import contextlib
import dataclasses
import errno
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from qcnn.errors import ArtifactError, format_value, single_line
from qcnn.storage.copies import local_file, new_file_copy
from qcnn.tables import check_ending
from qcnn.tables.chunks import FINITE, NOTHING, Chunk, TableFile, Write, rows_per_chunk
from qcnn.tables.csv_file import CsvFile, write_csv
from qcnn.tables.jsonl import JsonlFile, write_jsonl
from qcnn.tables.npz import NpzFile, write_npz
from qcnn.tables.parquet import ParquetFile, write_parquet
from qcnn.tables.text import check_utf8

_FORMATS: dict[str, Callable[[Path], TableFile]] = {
    ".csv": CsvFile,
    ".parquet": ParquetFile,
    ".npz": NpzFile,
    ".jsonl": JsonlFile,
}


@dataclasses.dataclass(frozen=True)
class Table:
    """An open table: address, file here, columns, and the number of its rows, None where only reading it tells.

    `index` are those columns that pandas wrote as the index of its table.

    Raises (by `pieces`):
        ArtifactError: a column is missing or has no name of its own, a value is missing, no number or not finite, or
            there is no row.
    """

    address: str
    path: Path
    names: tuple[str, ...]
    index: tuple[str, ...]
    rows: int | None
    _file: TableFile

    def pieces(self, names: Collection[str] | None = None, text: Collection[str] = ()) -> Iterator[Chunk]:
        """Yield the rows of these columns, or of all, in order; those in `text` hold text, the others numbers."""
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

    def unused_index(self, used: Collection[str]) -> str | None:
        """Return the line that names the index columns which are left out, None if there are none."""
        names = [name for name in self.index if name not in used]
        return f"data: left out as the index of a pandas table: {', '.join(names)} in {self.address}" if names else None

    def _check_names(self, wanted: Sequence[str]) -> None:
        """Refuse columns that are missing or cannot be told from others; what the others are called is theirs."""
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
                raise ArtifactError(f"data: every column must have a name of its own. Given: {name} twice")


@contextlib.contextmanager
def open_table(address: str) -> Iterator[Table]:
    r"""Open a file, or a temporary copy of one in a bucket, by the ending of its name.

    Memory is bounded whatever the file holds: nothing of it is run, and no array or line is read as a whole.

    Raises:
        ConfigError: its name ends otherwise, or the bucket refuses.
        ArtifactError: it cannot be read, is damaged, or does not name its columns.

    >>> from pathlib import Path
    >>> _ = Path("data.csv").write_text("qubit,angle\n3,0.5\n0,-1.5\n")
    >>> with open_table("data.csv") as table:
    ...     [(piece.first, piece.columns["angle"].tolist()) for piece in table.pieces(["angle"])]
    [(1, [0.5, -1.5])]
    """
    ending = check_ending("data", address)
    with local_file(address) as path:
        with _translate_errors(address):
            if path.exists() and not path.is_file():
                raise ArtifactError(f"data: must be a file. Given: {address}")
            file = _FORMATS[ending](path)
            for position, name in enumerate(file.names, 1):
                check_utf8(name, f"column {position}")
        yield Table(address, path, tuple(file.names), tuple(file.index), file.rows, file)


@contextlib.contextmanager
def _translate_errors(shown: str) -> Iterator[None]:
    """Turn whatever reading raises into one line; libraries raise nearly anything for a damaged file.

    Raises:
        ArtifactError: the file cannot be read, is damaged, or the block says so itself.
    """
    try:
        yield
    except ArtifactError:
        raise
    except Exception as error:
        # Libraries raise OSError for damage too; only an error of the system has a number.
        if isinstance(error, OSError) and error.errno is not None:
            reason = "it is not there" if error.errno == errno.ENOENT else single_line(error.strerror or error)
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
    """Yield a function that takes the next rows of a file, whose format follows from the ending of its name.

    All pieces have the same columns of numbers. A reader sees the whole, or what was there before: the file takes its
    name, or goes to its bucket, when the block ends well.

    Raises:
        ConfigError: the name ends otherwise, or the bucket refuses.
        ArtifactError: the file cannot be written.

    >>> from pathlib import Path
    >>> import numpy as np
    >>> with new_table("new.csv") as write:
    ...     write({"qubit": np.array([3, 0]), "prediction": np.array([0.1, -0.5])})
    >>> Path("new.csv").read_text().split()
    ['qubit,prediction', '3,0.1', '0,-0.5']
    """
    check_ending("output", address)
    with new_file_copy(address) as path, write_table(path, address) as write:
        yield write


def write_table(path: Path, address: str) -> AbstractContextManager[Write]:
    """Return what writes rows, as `new_table`, into a file that is to go to an address; it is whole with its end.

    Raises:
        ConfigError: the address ends otherwise.
    """
    return _WRITERS[check_ending("output", address)](path)
