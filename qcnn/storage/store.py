"""Bucket URIs, the interface of object stores, and the reasons of failed requests."""

import contextlib
import dataclasses
import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Protocol, runtime_checkable

from qcnn import plugins
from qcnn.errors import MAX_VALUE_LENGTH, ConfigError, QcnnError, has_credentials


class UnreachableError(QcnnError):
    """Error of an object store or registry that did not respond within the retry timeout.

    It is permanent: a restarted process would wait as long and fail again.
    """


class MissingFileError(ConfigError):
    """Error of a missing bucket, or of a missing file in it."""


class Store(Protocol):
    """Files in one folder of a bucket.

    File names are relative to the folder, with "/" between parts. Transient errors (503, slow or broken connections)
    are retried for about two minutes.

    Raises (by every method):
        ConfigError: If the bucket does not exist or access to it is denied.
        UnreachableError: If the server does not respond within the retry timeout.
    """

    def names(self) -> list[str]:
        """Return the names of all files."""

    def versions(self) -> dict[str, str]:
        """Return a version string for each file name. It changes with the content of the file."""

    def read(self, name: str, path: Path) -> None:
        """Copy a file to a local path.

        Raises:
            MissingFileError: If the file does not exist, for example because it was deleted after it was listed.
        """

    def write(self, path: Path, name: str) -> None:
        """Upload a local file atomically."""

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""

    def close(self) -> None:
        """Close the connections."""


@runtime_checkable
class ConditionalStore(Store, Protocol):
    """Store that replaces a file only if no other process has replaced it."""

    def read_version(self, name: str, path: Path) -> str:
        """Copy a file to a local path, and return the version of this copy.

        Raises:
            MissingFileError: If the file does not exist.
        """
        ...

    def write_if(self, path: Path, name: str, version: str | None) -> bool:
        """Upload a local file atomically if the present file has a version, and return whether it was uploaded.

        If the answer of a server is lost, the result can be False although the file was uploaded.

        Args:
            path: Local file.
            name: Name of the file to write.
            version: Result of `read_version`. None: the file must not exist.
        """
        ...


# For example "HTTPConnection(host='a', port=1): ..." or "<urllib3.HTTPConnection object at 0x7f>: ...".
_OBJECT = re.compile(r"^(?:<[^>]*>|\w+\([^)]*\)): ")
# For example "503 GET https://...: ...".
_REQUEST = re.compile(r"^(?:\d{3} )?(?:GET|POST|PUT|PATCH|DELETE|HEAD) https?://\S+: ")
# google-cloud-storage appends this to the response body of an upload (blob._raise_from_invalid_response).
_STATUS = re.compile(r"(?:: )?\('Request failed with status code', (\d+), .*\)$")

# Proxy variables of the HTTP libraries, in lower or upper case.
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def proxies_in(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the proxy variables that are set."""
    return [name for name, value in environment.items() if value and name.lower() in _PROXIES]


def proxy_note(environment: Mapping[str, str]) -> str:
    """Return a note about proxy variables for the message of a connection error, or "" if none is set."""
    found = sorted(proxies_in(environment))
    return f"; {' and '.join(found)} may lead to a proxy that cannot reach it, see no_proxy" if found else ""


def reason_of(error: BaseException) -> str:
    """Return the short reason of a failed request, without the details that libraries add."""
    inner = _cause(error)
    while inner is not None:
        error, inner = inner, _cause(inner)
    text = " ".join(str(error).split()) or type(error).__name__
    text = _REQUEST.sub("", _OBJECT.sub("", text))
    status = _STATUS.search(text)
    text = _message(_STATUS.sub("", text)) or (f"status {status[1]}" if status else text)
    return textwrap.shorten(text, MAX_VALUE_LENGTH, placeholder=" ...")


def _message(body: str) -> str:
    """Return the message in a response body: Google's JSON is parsed, other text is returned unchanged."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return body
    with contextlib.suppress(LookupError, TypeError):
        return " ".join(str(content["error"]["message"]).split())
    return body


def _cause(error: BaseException) -> BaseException | None:
    """Return the wrapped error (google.api_core `cause`, urllib3 `reason`, requests' first argument)."""
    candidates = (getattr(error, "cause", None), getattr(error, "reason", None), *error.args[:1])
    return next((candidate for candidate in candidates if isinstance(candidate, BaseException)), None)


# Store class of each URI scheme, as module:class. A plug-in cannot replace one of these.
SCHEMES = {
    "gs": "qcnn.storage.gcs:GoogleStore",
    "s3": "qcnn.storage.s3:S3Store",
    "minio": "qcnn.storage.s3:S3Store",
}


def _uri_forms() -> str:
    return ", ".join(f"{scheme}://BUCKET/FOLDER" for scheme in SCHEMES)


@dataclasses.dataclass(frozen=True)
class BucketUri:
    """A folder in a bucket."""

    scheme: str
    bucket: str
    folder: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.folder}".rstrip("/")

    @property
    def prefix(self) -> str:
        """Prefix of the keys of the folder's files."""
        return f"{self.folder}/" if self.folder else ""


def parse_bucket_uri(text: str) -> BucketUri | None:
    """Return the parsed URI of a folder in a bucket, or None for a local path.

    Raises:
        ConfigError: If the scheme is unknown, the bucket is missing, a part is `.` or `..`, or the URI contains
            credentials.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        return None
    bucket, _, folder = rest.partition("/")
    if not bucket or not (scheme in SCHEMES or scheme in plugins.installed(plugins.STORES)):
        plugin = plugins.allowed(plugins.STORES)
        raise ConfigError(f"uri: must be a local folder or {_uri_forms()}, or of {plugin}. Given: {text}")
    if has_credentials(text):
        raise ConfigError(
            "uri: must not contain a user name or password, which is readable by anyone who can view the run; set "
            f"credentials in the environment. Given: {text}"
        )
    if {".", ".."} & {bucket, *folder.split("/")}:
        raise ConfigError(f"uri: must not contain the part . or .. in a bucket. Given: {text}")
    return BucketUri(scheme, bucket, folder.strip("/"))


def check_reachable(field: str, uri: str) -> bool:
    """Return whether a URI is in a bucket, after a check that all pods of a cluster can reach it.

    Raises:
        ConfigError: If it is neither in a bucket nor an absolute path, where pods may mount a volume.
    """
    is_bucket = parse_bucket_uri(uri) is not None
    if not is_bucket and not uri.startswith("/"):
        raise ConfigError(
            f"{field}: must be {_uri_forms()}, or an absolute path at which the pods have a volume. Given: {uri}"
        )
    return is_bucket


def is_below(name: str) -> bool:
    """Return whether the name of an object is that of a file below its folder.

    Buckets accept any name, including one that leads out of a folder. Consoles create empty objects with the names of
    folders.
    """
    parts = PurePosixPath(name).parts
    leads_out = name.startswith("/") or ".." in parts or "\0" in name
    return bool(parts) and not name.endswith(("/", "/.")) and not leads_out
