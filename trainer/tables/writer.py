"""Writes a table in pieces, whatever its format."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from qcnn.trainer.storage.copies import new_file_copy
from qcnn.trainer.tables.arrays import write_arrays
from qcnn.trainer.tables.csv_file import write_csv
from qcnn.trainer.tables.endings import check_ending
from qcnn.trainer.tables.json_lines import write_json_lines
from qcnn.trainer.tables.parquet import write_parquet
from qcnn.trainer.tables.pieces import Write

_FORMATS: dict[str, Callable[[Path], AbstractContextManager[Write]]] = {
    ".csv": write_csv,
    ".parquet": write_parquet,
    ".npz": write_arrays,
    ".jsonl": write_json_lines,
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
    return _FORMATS[check_ending("output", address)](path)
