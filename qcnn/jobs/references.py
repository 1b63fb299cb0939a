"""Syntax of image references, namespace names and Kubernetes timestamps."""

import datetime
import re

from qcnn.errors import ConfigError

# distribution/reference v0.6.0, regexp.go and reference.go: the grammar of container runtimes and registries.
_DOMAIN_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME = rf"(?:{_DOMAIN}/)?{_PATH_PART}(?:/{_PATH_PART})*"
_MAX_TAG_LENGTH = 128
_TAG = rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{_MAX_TAG_LENGTH - 1}}}"
# opencontainers/go-digest v1.0.0, algorithm.go.
_DIGEST = r"(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})"
_IMAGE = re.compile(rf"({_NAME})(?::({_TAG}))?(?:@({_DIGEST}))?")
_MAX_NAME_LENGTH = 255
IMAGE_FORM = "an image reference, [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST], the name in lowercase letters"
# Suffix of the tag of an image with CUDA libraries, as in the Makefile, and the tag of a reference without one.
_GPU_SUFFIX, _DEFAULT_TAG = "-gpu", "latest"
# RFC 1123 label, as required for namespaces (apimachinery, pkg/util/validation).
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def is_image(text: str) -> bool:
    """Return whether text is a valid image reference.

    >>> [is_image(text) for text in ("qcnn", "localhost:5000/team/qcnn:1.0", "QCNN:1", "a b", "")]
    [True, True, False, False, False]
    """
    match = _IMAGE.fullmatch(text)
    return match is not None and len(match[1]) <= _MAX_NAME_LENGTH


def check_image(field: str, text: str) -> None:
    """Raise ConfigError if text is not a valid image reference."""
    if not is_image(text):
        raise ConfigError(f"{field}: must be {IMAGE_FORM}. Given: {text}")


def gpu_image(field: str, image: str) -> str:
    """Return the image for processes with GPUs: the same name with the tag suffix -gpu.

    An image whose tag has the suffix is returned unchanged. So is an image with a digest, which determines its content.

    Args:
        field: Name of the setting, for the error message.
        image: Valid image reference.

    Raises:
        ConfigError: If the tag is too long for the suffix.

    >>> [gpu_image("image", image) for image in ("localhost:5000/qcnn:1.0", "qcnn", "qcnn:1.0-gpu")]
    ['localhost:5000/qcnn:1.0-gpu', 'qcnn:latest-gpu', 'qcnn:1.0-gpu']
    """
    match = _IMAGE.fullmatch(image)
    assert match, image
    name, tag, digest = match.groups()
    tag = tag or _DEFAULT_TAG
    if digest or tag.endswith(_GPU_SUFFIX):
        return image
    longest = _MAX_TAG_LENGTH - len(_GPU_SUFFIX)
    if len(tag) > longest:
        raise ConfigError(
            f"{field}: must have a tag of at most {longest} characters with GPUs, which add {_GPU_SUFFIX}. "
            f"Given: {image}"
        )
    return f"{name}:{tag}{_GPU_SUFFIX}"


def check_namespace(text: str) -> None:
    """Raise ConfigError if text is not a valid Kubernetes namespace name."""
    if not _LABEL.fullmatch(text):
        raise ConfigError(
            "namespace: must be at most 63 lowercase letters, digits and hyphens, without a hyphen at either end. "
            f"Given: {text}"
        )


_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


def parse_time(text: str) -> datetime.datetime:
    """Parse an RFC 3339 timestamp, with or without a fraction of a second.

    Raises:
        ValueError: If text is not a timestamp.
    """
    return datetime.datetime.fromisoformat(text)


def micro_time(time: datetime.datetime) -> str:
    """Format a UTC time as a Kubernetes MicroTime, with microseconds, as in a Lease."""
    return time.strftime(_MICRO_TIME)
