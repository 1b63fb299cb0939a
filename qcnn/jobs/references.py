"""Grammars of what a job is given or tells: image references, names of namespaces, times of Kubernetes."""

import datetime
import re

from qcnn.errors import ConfigError

# distribution/reference v0.6.0, regexp.go and reference.go: the grammar that container runtimes and registries share.
_DOMAIN_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME = rf"(?:{_DOMAIN}/)?{_PATH_PART}(?:/{_PATH_PART})*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
# opencontainers/go-digest v1.0.0, algorithm.go: each algorithm has hashes of one length.
_DIGEST = r"(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})"
_IMAGE = re.compile(rf"({_NAME})(?::{_TAG})?(?:@{_DIGEST})?")
_MAX_NAME_LENGTH = 255
IMAGE_FORM = "an image reference, [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST], the name in small letters"
# RFC 1123, which apimachinery's pkg/util/validation asks of the name of a namespace.
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def is_image(text: str) -> bool:
    """Return whether text is a reference of an image.

    >>> [is_image(text) for text in ("qcnn", "localhost:5000/team/qcnn:1.0", "QCNN:1", "a b", "")]
    [True, True, False, False, False]
    """
    found = _IMAGE.fullmatch(text)
    return found is not None and len(found[1]) <= _MAX_NAME_LENGTH


def check_image(field: str, text: str) -> None:
    """Check the reference of an image.

    Raises:
        ConfigError: it is none.
    """
    if not is_image(text):
        raise ConfigError(f"{field}: must be {IMAGE_FORM}. Given: {text}")


def check_namespace(text: str) -> None:
    """Check the name of a namespace.

    Raises:
        ConfigError: Kubernetes takes no namespace of this name.
    """
    if not _LABEL.fullmatch(text):
        raise ConfigError(
            "namespace: must be of at most 63 small letters, digits and hyphens, no hyphen at either end. "
            f"Given: {text}"
        )


_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


def parse_time(text: str) -> datetime.datetime:
    """Return a time that was written with or without a fraction of a second.

    Raises:
        ValueError: it is none.
    """
    # Python 3.10 does not know the letter for UTC.
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def micro_time(time: datetime.datetime) -> str:
    """Return a time of UTC as the API server takes it for a Lease, with six digits of its fraction."""
    return time.strftime(_MICRO_TIME)
