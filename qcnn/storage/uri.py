"""Which folders are in a bucket, and which store keeps each of them."""

import dataclasses
from pathlib import PurePosixPath

from qcnn.errors import ConfigError, has_credentials

# The class that keeps the buckets of a scheme, as module:class. A new store is a module beside these and a line here.
SCHEMES = {
    "gs": "qcnn.storage.gcs:GoogleStore",
    "s3": "qcnn.storage.s3:S3Store",
    "minio": "qcnn.storage.s3:S3Store",
}


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
        ConfigError: it is of another kind, names no bucket, leads out of it, or has credentials in it.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        return None
    bucket, _, folder = rest.partition("/")
    if scheme not in SCHEMES or not bucket:
        kinds = ", ".join(f"{known}://BUCKET/FOLDER" for known in SCHEMES)
        raise ConfigError(f"address: must be a local folder or {kinds}. Given: {text}")
    if has_credentials(text):
        raise ConfigError(
            "address: must hold no name or password, which everybody who sees a run could read; "
            f"credentials come from the environment. Given: {text}"
        )
    if {".", ".."} & {bucket, *folder.split("/")}:
        raise ConfigError(f"address: no part of it may be . or .., which mean nothing in a bucket. Given: {text}")
    return Address(scheme, bucket, folder.strip("/"))


def check_reachable(word: str, address: str) -> bool:
    """Refuse an address that not all pods of a cluster could reach; return whether it is in a bucket.

    Raises:
        ConfigError: it is neither in a bucket nor an absolute path, where the pods may have a volume.
    """
    is_bucket = in_bucket(address) is not None
    if not is_bucket and not address.startswith("/"):
        raise ConfigError(
            f"{word}: must be {', '.join(f'{scheme}://BUCKET/FOLDER' for scheme in SCHEMES)}, or an absolute path at "
            f"which the pods have a volume. Given: {address}"
        )
    return is_bucket


def is_below(name: str) -> bool:
    """Whether a name is that of a file below a folder; consoles mark folders by empty files of their names.

    A bucket takes any name, such as one that leads out of the folder that it is copied into.
    """
    parts = PurePosixPath(name).parts
    leads_out = name.startswith("/") or ".." in parts or "\0" in name
    return bool(parts) and not name.endswith(("/", "/.")) and not leads_out
