"""Store for Google Cloud Storage, or for the server in STORAGE_EMULATOR_HOST."""

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import requests

with warnings.catch_warnings():
    # The library warns about Python releases whose support will end.
    warnings.simplefilter("ignore", FutureWarning)
    import google.cloud.storage as storage
    from google.api_core import exceptions
    from google.auth import exceptions as auth_exceptions
    from google.cloud.storage.retry import DEFAULT_RETRY

from qcnn.errors import ConfigError
from qcnn.storage.store import BucketUri, MissingFileError, UnreachableError, proxy_note, reason_of

_EMULATOR = "STORAGE_EMULATOR_HOST"
_RETRY = DEFAULT_RETRY.with_timeout(120.0)
# Number of attempts to read a file that others replace.
_MAX_READS = 100
# Connection and read timeout in seconds.
_TIMEOUT = (10.0, 60.0)


class GoogleStore:
    """A folder of a Cloud Storage bucket."""

    def __init__(self, uri: BucketUri) -> None:
        self._uri = uri
        with _translate_errors(self._uri):
            self._client = storage.Client(client_options=_client_options())
        self._bucket = self._client.bucket(uri.bucket)

    def names(self) -> list[str]:
        """Return the names of all files."""
        with _translate_errors(self._uri):
            blobs = self._bucket.list_blobs(prefix=self._uri.prefix, timeout=_TIMEOUT, retry=_RETRY)
            return [blob.name.removeprefix(self._uri.prefix) for blob in blobs]

    def versions(self) -> dict[str, str]:
        """Return a version string for each file name. It changes with the content of the file."""
        with _translate_errors(self._uri):
            blobs = self._bucket.list_blobs(prefix=self._uri.prefix, timeout=_TIMEOUT, retry=_RETRY)
            return {blob.name.removeprefix(self._uri.prefix): str(blob.generation) for blob in blobs}

    def read(self, name: str, path: Path) -> None:
        """Copy a file to a local path."""
        with _translate_errors(self._uri):
            self._blob(name).download_to_filename(str(path), timeout=_TIMEOUT, retry=_RETRY)

    def write(self, path: Path, name: str) -> None:
        """Upload a local file atomically."""
        with _translate_errors(self._uri), path.open("rb") as file:
            # An event file may grow during the upload.
            size = os.fstat(file.fileno()).st_size
            self._blob(name).upload_from_file(
                file, size=size, content_type="application/octet-stream", timeout=_TIMEOUT, retry=_RETRY
            )

    def read_version(self, name: str, path: Path) -> str:
        """Copy a file to a local path, and return the version of this copy."""
        with _translate_errors(self._uri):
            for _ in range(_MAX_READS):
                blob = self._blob(name)
                blob.reload(timeout=_TIMEOUT, retry=_RETRY)
                # A file that was replaced since then is read again.
                with contextlib.suppress(exceptions.PreconditionFailed):
                    blob.download_to_filename(
                        str(path), timeout=_TIMEOUT, retry=_RETRY, if_generation_match=blob.generation
                    )
                    return str(blob.generation)
        raise UnreachableError(f"bucket: the file must not change during each read. Given: {self._uri}/{name}")

    def write_if(self, path: Path, name: str, version: str | None) -> bool:
        """Upload a local file atomically if the present file has a version, and return whether it was uploaded."""
        with _translate_errors(self._uri):
            try:
                self._blob(name).upload_from_filename(
                    str(path),
                    content_type="application/octet-stream",
                    timeout=_TIMEOUT,
                    retry=_RETRY,
                    # Generation 0 is that of a file that does not exist.
                    if_generation_match=int(version or 0),
                )
            except exceptions.PreconditionFailed:
                return False
        return True

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        with _translate_errors(self._uri), contextlib.suppress(exceptions.NotFound):
            self._blob(name).delete(timeout=_TIMEOUT, retry=_RETRY)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _blob(self, name: str) -> storage.Blob:
        return self._bucket.blob(self._uri.prefix + name)


def bucket_region(uri: BucketUri, project: str) -> str | None:
    """Return the region of a bucket, or None if it is multi-regional or access to its metadata is denied.

    Raises:
        ConfigError: If the bucket does not exist, or there are no credentials.
        UnreachableError: If Cloud Storage does not respond.
    """
    with (
        _translate_errors(uri),
        contextlib.closing(storage.Client(project, client_options=_client_options())) as client,
    ):
        try:
            bucket = client.get_bucket(uri.bucket, timeout=_TIMEOUT, retry=_RETRY)
        except exceptions.Forbidden:
            return None
    return str(bucket.location).lower() if bucket.location_type == "region" else None


def _client_options() -> dict[str, str] | None:
    """Return the endpoint of the emulator, with http://, which Kubeflow's programs do not accept."""
    host = os.environ.get(_EMULATOR, "")
    if not host:
        return None
    return {"api_endpoint": host if "://" in host else f"http://{host}"}


@contextlib.contextmanager
def _translate_errors(uri: BucketUri) -> Iterator[None]:
    try:
        yield
    except exceptions.NotFound:
        raise MissingFileError(f"bucket: the bucket or the requested file does not exist. Given: {uri}") from None
    except (exceptions.Forbidden, exceptions.Unauthorized) as error:
        raise ConfigError(f"bucket: access denied ({reason_of(error)}). Given: {uri}") from None
    except auth_exceptions.DefaultCredentialsError:
        raise ConfigError(
            "bucket: no Google credentials found; log in (gcloud auth application-default login), or run as a service "
            f"account with credentials. Given: {uri}"
        ) from None
    except exceptions.ClientError as error:
        raise ConfigError(f"bucket: request rejected ({reason_of(error)}). Given: {uri}") from None
    except (
        exceptions.GoogleAPIError,
        auth_exceptions.GoogleAuthError,
        requests.RequestException,
        ConnectionError,
    ) as error:
        note = "" if isinstance(error, exceptions.GoogleAPICallError) else proxy_note(os.environ)
        raise UnreachableError(f"bucket: request failed ({reason_of(error)}{note}). Given: {uri}") from None
