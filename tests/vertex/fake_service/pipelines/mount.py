"""Local folder in place of /gcs: filled from buckets before a step, and copied back after it."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import google.cloud.storage as storage
from google.auth.credentials import AnonymousCredentials


def fill(host: str, folder: Path, uris: Iterable[str]) -> None:
    """Download files or folders at URIs (gs://BUCKET/...) into the local folder."""
    with _client(host) as client:
        for uri in uris:
            bucket, _, path = uri.removeprefix("gs://").partition("/")
            for blob in client.list_blobs(bucket, prefix=path):
                # The prefix of folder a also matches a folder ab.
                if blob.name == path or blob.name.startswith(f"{path.rstrip('/')}/"):
                    local = folder / bucket / blob.name
                    local.parent.mkdir(parents=True, exist_ok=True)
                    blob.download_to_filename(str(local))


def copy_back(host: str, folder: Path, known: dict[str, int]) -> None:
    """Upload files that are new or have changed since `known`, a result of `marks`."""
    with _client(host) as client:
        for name, mark in marks(folder).items():
            if known.get(name) != mark:
                bucket, _, path = name.partition("/")
                client.bucket(bucket).blob(path).upload_from_filename(str(folder / name))


def marks(folder: Path) -> dict[str, int]:
    """Return the modification time of every file by path."""
    found = (Path(where) / name for where, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in found}


@contextlib.contextmanager
def _client(host: str) -> Iterator[storage.Client]:
    credentials = AnonymousCredentials()
    with contextlib.closing(
        storage.Client(project="any", credentials=credentials, client_options={"api_endpoint": host})
    ) as client:
        yield client
