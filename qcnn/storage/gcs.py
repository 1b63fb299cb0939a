"""Google Cloud Storage, or the server that STORAGE_EMULATOR_HOST names."""

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import requests

with warnings.catch_warnings():
    # The library warns of Python releases that it will not support some day.
    warnings.simplefilter("ignore", FutureWarning)
    import google.cloud.storage as storage
    from google.api_core import exceptions
    from google.auth import exceptions as auth_exceptions
    from google.cloud.storage.retry import DEFAULT_RETRY

from qcnn.errors import ConfigError
from qcnn.storage.store import BucketUri, MissingFileError, UnreachableError, proxy_note, reason_of

_EMULATOR = "STORAGE_EMULATOR_HOST"
_RETRY = DEFAULT_RETRY.with_timeout(120.0)
# To connect, and between two packets.
_TIMEOUT = (10.0, 60.0)


class GoogleStore:
    """A folder of a Cloud Storage bucket."""

    def __init__(self, address: BucketUri) -> None:
        self._address = address
        with _one_line(self._address):
            self._client = storage.Client(client_options=_client_options())
        self._bucket = self._client.bucket(address.bucket)

    def names(self) -> list[str]:
        """Return the names of all files."""
        with _one_line(self._address):
            blobs = self._bucket.list_blobs(prefix=self._address.prefix, timeout=_TIMEOUT, retry=_RETRY)
            return [blob.name.removeprefix(self._address.prefix) for blob in blobs]

    def versions(self) -> dict[str, str]:
        """Return the names of all files, each with a mark that changes with its content."""
        with _one_line(self._address):
            blobs = self._bucket.list_blobs(prefix=self._address.prefix, timeout=_TIMEOUT, retry=_RETRY)
            return {blob.name.removeprefix(self._address.prefix): str(blob.generation) for blob in blobs}

    def read(self, name: str, path: Path) -> None:
        """Copy a file to a local path."""
        with _one_line(self._address):
            self._blob(name).download_to_filename(str(path), timeout=_TIMEOUT, retry=_RETRY)

    def write(self, path: Path, name: str) -> None:
        """Copy a local file; a reader sees the whole, or what was there before."""
        with _one_line(self._address), path.open("rb") as file:
            # A file of events may grow during the upload.
            size = os.fstat(file.fileno()).st_size
            self._blob(name).upload_from_file(
                file, size=size, content_type="application/octet-stream", timeout=_TIMEOUT, retry=_RETRY
            )

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        with _one_line(self._address), contextlib.suppress(exceptions.NotFound):
            self._blob(name).delete(timeout=_TIMEOUT, retry=_RETRY)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _blob(self, name: str) -> storage.Blob:
        return self._bucket.blob(self._address.prefix + name)


def bucket_region(address: BucketUri, project: str) -> str | None:
    """Return the region that an address's bucket is in; None where that is several, or may not be asked for.

    Raises:
        ConfigError: there is no such bucket, or there are no credentials.
        UnreachableError: Cloud Storage does not answer.
    """
    with _one_line(address), contextlib.closing(storage.Client(project, client_options=_client_options())) as client:
        try:
            bucket = client.get_bucket(address.bucket, timeout=_TIMEOUT, retry=_RETRY)
        except exceptions.Forbidden:
            return None
    return str(bucket.location).lower() if bucket.location_type == "region" else None


def _client_options() -> dict[str, str] | None:
    """Return the server's address with http://, which Kubeflow's own programs want without it."""
    host = os.environ.get(_EMULATOR, "")
    if not host:
        return None
    return {"api_endpoint": host if "://" in host else f"http://{host}"}


@contextlib.contextmanager
def _one_line(address: BucketUri) -> Iterator[None]:
    try:
        yield
    except exceptions.NotFound:
        raise MissingFileError(f"bucket: it, or the requested file in it, does not exist. Given: {address}") from None
    except (exceptions.Forbidden, exceptions.Unauthorized) as error:
        raise ConfigError(f"bucket: access is refused ({reason_of(error)}). Given: {address}") from None
    except auth_exceptions.DefaultCredentialsError:
        raise ConfigError(
            "bucket: no Google credentials are found; log in (gcloud auth application-default login), or run as a "
            f"service account that has some. Given: {address}"
        ) from None
    except exceptions.ClientError as error:
        raise ConfigError(f"bucket: refuses ({reason_of(error)}). Given: {address}") from None
    except (
        exceptions.GoogleAPIError,
        auth_exceptions.GoogleAuthError,
        requests.RequestException,
        ConnectionError,
    ) as error:
        note = "" if isinstance(error, exceptions.GoogleAPICallError) else proxy_note(os.environ)
        raise UnreachableError(
            f"bucket: does not answer as it should ({reason_of(error)}{note}). Given: {address}"
        ) from None
