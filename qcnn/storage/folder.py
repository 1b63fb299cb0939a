"""Store for a local folder, also one that several processes or machines share."""

import contextlib
import shutil
from pathlib import Path

from qcnn.atomic_files import complete_files, folder_lock, new_file, readable, sha256_of, writable
from qcnn.errors import ConfigError
from qcnn.storage.store import ConditionalStore, MissingFileError, parse_bucket_uri
from qcnn.storage.sync import open_store


class FolderStore:
    """A local folder, which is created by the first write. Conditional writes lock the folder of the file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        """Return the names of all files."""
        with readable("folder", self._folder):
            return sorted(complete_files(self._folder)) if self._folder.exists() else []

    def versions(self) -> dict[str, str]:
        """Return a version string for each file name. It changes with the content of the file."""
        return {name: sha256_of(self._folder / name) for name in self.names()}

    def read(self, name: str, path: Path) -> None:
        """Copy a file to a local path."""
        try:
            shutil.copyfile(self._folder / name, path)
        except (FileNotFoundError, NotADirectoryError):
            raise MissingFileError(f"file: must exist. Given: {self._folder / name}") from None

    def read_version(self, name: str, path: Path) -> str:
        """Copy a file to a local path, and return the version of this copy."""
        self.read(name, path)
        return sha256_of(path)

    def write(self, path: Path, name: str) -> None:
        """Copy a local file atomically."""
        with new_file(self._folder / name) as unfinished:
            shutil.copyfile(path, unfinished)

    def write_if(self, path: Path, name: str, version: str | None) -> bool:
        """Copy a local file atomically if the present file has a version, and return whether it was copied."""
        target = self._folder / name
        with folder_lock("write", target.parent):
            present = None
            with contextlib.suppress(FileNotFoundError):
                present = sha256_of(target)
            if present == version:
                self.write(path, name)
            return present == version

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        with writable(self._folder / name):
            (self._folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Close nothing."""


def open_conditional_store(uri: str) -> ConditionalStore:
    """Return the store of a local folder or a bucket URI.

    Raises:
        ConfigError: If the store of a plug-in has no conditional writes.
    """
    bucket_uri = parse_bucket_uri(uri)
    store = open_store(bucket_uri) if bucket_uri else FolderStore(Path(uri))
    if not isinstance(store, ConditionalStore):
        raise ConfigError(f"uri: must be in a store with the method write_if. Given: {uri}")
    return store
