"""History files, to which the chief appends, and the parts of them that belong to a checkpoint."""

import dataclasses
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from qcnn.atomic_files import new_file, readable, writable
from qcnn.model.history import EpochMetrics, from_csv, to_csv

# File of the epochs of a training run, in its folder.
HISTORY = "history.csv"
# Size of the longest history, at 100 bytes per row.
MAX_HISTORY_BYTES = 2**27
_TRIAL_FILE = re.compile(r"initializations/[1-9][0-9]{0,3}\.csv")


def trial_file(initialization: int) -> str:
    """Return the name of the file for the epochs of one of several initializations, counted from 1, while it is tried.

    The epochs of the selected initialization are copied to `HISTORY`.
    """
    return f"initializations/{initialization}.csv"


def is_history_file(name: str) -> bool:
    """Return whether a relative path is that of a history file in a training folder."""
    return name == HISTORY or bool(_TRIAL_FILE.fullmatch(name))


@dataclasses.dataclass(frozen=True)
class StoredHistory:
    """Epochs in the first `size` bytes of a history file.

    The file may have further rows, or an incomplete one, if the chief was killed after it had written them.
    """

    path: Path
    size: int
    sha256: str

    def content(self) -> bytes:
        """Return the bytes.

        Raises:
            ArtifactError: If the file is missing, or its bytes are not those that were written.
        """
        if not self.size:
            return b""
        with readable("training", self.path), self.path.open("rb") as file:
            content = file.read(self.size)
            if hashlib.sha256(content).hexdigest() != self.sha256:
                raise ValueError(f"its first {self.size} bytes are not those of the checkpoint")
        return content

    def epochs(self) -> tuple[EpochMetrics, ...]:
        """Return the epochs.

        Raises:
            ArtifactError: If the file is missing or damaged.
        """
        content = self.content()
        with readable("training", self.path):
            return from_csv(content.decode()) if content else ()


# Epochs in a history file, or in checkpoints of earlier releases the epochs themselves.
History = StoredHistory | tuple[EpochMetrics, ...]


def epochs_in(history: History) -> tuple[EpochMetrics, ...]:
    """Return the epochs of a history.

    Raises:
        ArtifactError: If they are in a file that is missing or damaged.
    """
    return history.epochs() if isinstance(history, StoredHistory) else history


class HistoryFile:
    """File to which the epochs of an initialization are appended.

    Args:
        path: File to write.
        columns: Names of its columns.
        history: Epochs that the file starts with, for example those of a checkpoint. Other content is removed.

    Raises:
        ArtifactError: If `history` is in a file that is missing or damaged, or the file cannot be written.
    """

    def __init__(self, path: Path, columns: Sequence[str], history: History = ()) -> None:
        self._path, self._columns = path, columns
        if isinstance(history, StoredHistory):
            content = history.content()
        else:
            content = self._rows(history, header=True) if history else b""
        if content and not (path.exists() and path.read_bytes() == content):
            with new_file(path) as unfinished:
                unfinished.write_bytes(content)
        self._size, self._digest = len(content), hashlib.sha256(content)
        self._added: list[EpochMetrics] = []

    def add(self, epoch: EpochMetrics) -> None:
        """Add an epoch, which `store` writes."""
        self._added.append(epoch)

    def store(self) -> StoredHistory:
        """Append the added epochs to the file, and return the location of all epochs.

        The time does not depend on the number of earlier epochs.

        Raises:
            ArtifactError: If the file cannot be written.
        """
        if self._added:
            content = self._rows(self._added, header=not self._size)
            with writable(self._path):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("r+b" if self._size else "wb") as file:
                    file.seek(self._size)
                    file.write(content)
                    file.flush()
                    # The rows must reach the disk before the checkpoint that refers to them.
                    os.fsync(file.fileno())
            self._size += len(content)
            self._digest.update(content)
            self._added.clear()
        return StoredHistory(self._path, self._size, self._digest.hexdigest())

    def _rows(self, history: Iterable[EpochMetrics], *, header: bool) -> bytes:
        return to_csv(history, self._columns, header=header).encode()
