"""How the server says no."""

import re

import grpc

CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.ALREADY_EXISTS,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
# Google's "Map labels" of custom jobs and pipeline jobs: at most 64 of them.
_LABEL = re.compile(r"[\w-]{0,64}")
_MOST_LABELS = 64


class RefusedError(Exception):
    """An answer that is an error, by its number in HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.code = CODES[status]
        self.message = message


def precondition(message: str) -> RefusedError:
    """Return a refusal because of the state that something is in, which HTTP knows as 400, too."""
    refused = RefusedError(400, message)
    refused.code = grpc.StatusCode.FAILED_PRECONDITION
    return refused


def require(field: str, value: object) -> None:
    """Refuse a request that lacks a required field.

    Raises:
        RefusedError: the value is empty.
    """
    if not value:
        raise RefusedError(400, f"Required field `{field}` is not set.")


def check_display_name(value: str) -> None:
    """Refuse a display name that is empty or longer than 128 characters."""
    require("display_name", value)
    if len(value) > 128:
        raise RefusedError(400, f"The display name must be at most 128 characters long. Given: {len(value)}")


def check_labels(labels: dict[str, str]) -> None:
    """Refuse labels that break the rules: lower case letters, digits, _ and -, 64 characters, 64 labels."""
    if len(labels) > _MOST_LABELS:
        raise RefusedError(400, f"No more than {_MOST_LABELS} labels can be set. Given: {len(labels)}")
    for key, value in labels.items():
        for text in (key, value):
            if not _LABEL.fullmatch(text) or text != text.lower():
                raise RefusedError(
                    400, f"Label keys and values must match [\\p{{Ll}}\\p{{Lo}}\\p{{N}}_-]{{0,63}}. Given: {text!r}"
                )
        if not key or not key[0].isalpha():
            raise RefusedError(400, f"Label keys must start with a letter. Given: {key!r}")
