"""What every store of files in a bucket offers."""

from pathlib import Path
from typing import Protocol

from qcnn.trainer.errors import QcnnError


class UnreachableError(QcnnError):
    """A bucket has not answered for as long as it is waited for; starting again would wait as long in vain."""


class Store(Protocol):
    """The files of one folder of a bucket, by their names below it, with "/" between parts.

    Faults that pass (503, a slow or broken connection) are tried again for about two minutes.

    Raises (by every method):
        ConfigError: the bucket does not exist, or its owner refuses; one line that says which.
        UnreachableError: it does not answer, and has been waited for.
    """

    def names(self) -> list[str]:
        """Return the names of all files."""

    def versions(self) -> dict[str, str]:
        """Return the names of all files, each with a mark that changes with its content."""

    def read(self, name: str, path: Path) -> None:
        """Copy a file to a local path."""

    def write(self, path: Path, name: str) -> None:
        """Copy a local file; a reader sees the whole, or what was there before."""

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""

    def close(self) -> None:
        """Close the connections."""
