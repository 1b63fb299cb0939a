"""What a bucket's folder can do, whoever keeps it, and which address is whose."""

import dataclasses
from pathlib import Path
from typing import Protocol

from trainer.errors import ConfigError, QcnnError

SCHEMES = ("gs", "s3", "minio")


class UnreachableError(QcnnError):
    """A bucket has not answered for as long as it is waited for; whoever starts again waits as long in vain."""


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


@dataclasses.dataclass(frozen=True)
class Address:
    """A folder in a bucket."""

    scheme: str
    bucket: str
    folder: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.folder}".rstrip("/")

    @property
    def prefix(self) -> str:
        """What the keys of the folder's files begin with."""
        return f"{self.folder}/" if self.folder else ""


def in_bucket(text: str) -> Address | None:
    """Return the address of a folder in a bucket, None for a local folder.

    Raises:
        ConfigError: it is of another kind, or names no bucket.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        return None
    bucket, _, folder = rest.partition("/")
    if scheme not in SCHEMES or not bucket:
        kinds = ", ".join(f"{known}://BUCKET/FOLDER" for known in SCHEMES)
        raise ConfigError(f"address: must be a local folder or {kinds}. Given: {text}")
    return Address(scheme, bucket, folder.strip("/"))


def open_store(address: Address) -> Store:
    """Return the files at an address.

    Raises:
        ConfigError: there are no credentials for it.
    """
    # Either library takes a second to load.
    if address.scheme == "gs":
        from trainer.storage.google import GoogleStore

        return GoogleStore(address)
    from trainer.storage.s3 import S3Store

    return S3Store(address)
