"""Which folders are in a bucket, and which store keeps each of them."""

import dataclasses

from trainer.errors import ConfigError

# The class that keeps the buckets of a scheme, as module:class. A new store is a module beside these and a line here.
SCHEMES = {
    "gs": "trainer.storage.google:GoogleStore",
    "s3": "trainer.storage.s3:S3Store",
    "minio": "trainer.storage.s3:S3Store",
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
