"""Errors that the server returns, and validation of common fields."""

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
# Limits of labels of custom jobs and pipeline jobs.
_LABEL = re.compile(r"[\w-]{0,64}")
_MAX_LABELS = 64


class StatusError(Exception):
    """Error response with an HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.code = CODES[status]
        self.message = message


def precondition(message: str) -> StatusError:
    """Return a FAILED_PRECONDITION error, whose HTTP status is 400."""
    error = StatusError(400, message)
    error.code = grpc.StatusCode.FAILED_PRECONDITION
    return error


def require(field: str, value: object) -> None:
    """Raise an error if a required field is empty.

    Raises:
        StatusError: If the value is empty.
    """
    if not value:
        raise StatusError(400, f"Required field `{field}` is not set.")


def check_display_name(value: str) -> None:
    """Raise StatusError if a display name is empty or longer than 128 characters."""
    require("display_name", value)
    if len(value) > 128:
        raise StatusError(400, f"The display name must be at most 128 characters long. Given: {len(value)}")


def check_labels(labels: dict[str, str]) -> None:
    """Raise StatusError if there are more than 64 labels or a label has invalid characters or length."""
    if len(labels) > _MAX_LABELS:
        raise StatusError(400, f"No more than {_MAX_LABELS} labels can be set. Given: {len(labels)}")
    for key, value in labels.items():
        for text in (key, value):
            if not _LABEL.fullmatch(text) or text != text.lower():
                raise StatusError(
                    400, f"Label keys and values must match [\\p{{Ll}}\\p{{Lo}}\\p{{N}}_-]{{0,63}}. Given: {text!r}"
                )
        if not key or not key[0].isalpha():
            raise StatusError(400, f"Label keys must start with a letter. Given: {key!r}")
