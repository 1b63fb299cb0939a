"""Addresses in buckets, what every store of files there offers, and how a refusal is said."""

import contextlib
import dataclasses
import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Protocol

from qcnn.errors import MOST_QUOTED, ConfigError, QcnnError, has_credentials


class UnreachableError(QcnnError):
    """A bucket has not answered for as long as it is waited for; starting again would wait as long in vain."""


class MissingFileError(ConfigError):
    """A bucket or a file in it does not exist, or no longer."""


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
        """Copy a file to a local path.

        Raises:
            MissingFileError: If it does not exist, as when it was deleted after it was listed.
        """

    def write(self, path: Path, name: str) -> None:
        """Copy a local file; a reader sees the whole, or what was there before."""

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""

    def close(self) -> None:
        """Close the connections."""


# As in "HTTPConnection(host='a', port=1): ..." and "<urllib3.HTTPConnection object at 0x7f>: ...".
_OBJECT = re.compile(r"^(?:<[^>]*>|\w+\([^)]*\)): ")
# As in "503 GET https://...: ...".
_REQUEST = re.compile(r"^(?:\d{3} )?(?:GET|POST|PUT|PATCH|DELETE|HEAD) https?://\S+: ")
# What google-cloud-storage puts behind the body of an answer to an upload (blob._raise_from_invalid_response).
_STATUS = re.compile(r"(?:: )?\('Request failed with status code', (\d+), .*\)$")

# Variables that name a proxy to the libraries of the stores, in lower or upper case.
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def proxy_note(environment: Mapping[str, str]) -> str:
    """Return a note for a server that cannot be reached, which names the variables of proxies; empty if none is set."""
    found = sorted(name for name, value in environment.items() if value and name.lower() in _PROXIES)
    return f"; {' and '.join(found)} may lead to a proxy that cannot reach it, see no_proxy" if found else ""


def reason_of(error: BaseException) -> str:
    """Return why a request failed, without what the libraries put around it, cut between words."""
    inner = _cause(error)
    while inner is not None:
        error, inner = inner, _cause(inner)
    text = " ".join(str(error).split()) or type(error).__name__
    text = _REQUEST.sub("", _OBJECT.sub("", text))
    status = _STATUS.search(text)
    text = _message(_STATUS.sub("", text)) or (f"status {status[1]}" if status else text)
    return textwrap.shorten(text, MOST_QUOTED, placeholder=" ...")


def _message(body: str) -> str:
    """Return the message in the body of an answer, which is JSON where it comes from Google; other text as it is."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return body
    with contextlib.suppress(LookupError, TypeError):
        return " ".join(str(content["error"]["message"]).split())
    return body


def _cause(error: BaseException) -> BaseException | None:
    """Return the error that is inside one (google.api_core `cause`, urllib3 `reason`, requests its first argument)."""
    candidates = (getattr(error, "cause", None), getattr(error, "reason", None), *error.args[:1])
    return next((candidate for candidate in candidates if isinstance(candidate, BaseException)), None)


# The class that keeps the buckets of a scheme, as module:class. A new store is a module beside these and a line here.
SCHEMES = {
    "gs": "qcnn.storage.gcs:GoogleStore",
    "s3": "qcnn.storage.s3:S3Store",
    "minio": "qcnn.storage.s3:S3Store",
}


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
        """What the keys of the folder's files begin with."""
        return f"{self.folder}/" if self.folder else ""


def parse_bucket_uri(text: str) -> BucketUri | None:
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
    return BucketUri(scheme, bucket, folder.strip("/"))


def check_reachable(word: str, address: str) -> bool:
    """Refuse an address that not all pods of a cluster could reach; return whether it is in a bucket.

    Raises:
        ConfigError: it is neither in a bucket nor an absolute path, where the pods may have a volume.
    """
    is_bucket = parse_bucket_uri(address) is not None
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
