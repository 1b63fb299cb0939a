"""Errors of the API server, and the retry policy of requests."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import tenacity
import urllib3

from qcnn.errors import MAX_MESSAGE_LENGTH, ConfigError, service_message

# The client library takes a third of a second to load, so functions import it.
if TYPE_CHECKING:
    from kubernetes.client import ApiException

FORBIDDEN, NOT_FOUND = 403, 404
UNAVAILABLE = "the API server is unavailable"
# Command that checks a cluster before training.
DOCTOR = "`qcnn doctor --target kubernetes`"
# The client library reports status 0 for a broken TLS connection.
_UNAVAILABLE_STATUSES = (0, 429, 500, 502, 503, 504)


class RequestRejectedError(ConfigError):
    """The API server rejects a request.

    Attributes:
        status: HTTP status of the response.
        is_final: Whether the namespace is being deleted.
    """

    def __init__(self, message: str, status: int, *, is_final: bool = False) -> None:
        super().__init__(message, MAX_MESSAGE_LENGTH)
        self.status = status
        self.is_final = is_final


def rejection(
    error: ApiException, action: str, namespace: str, *, was_allowed: bool, missing: str = ""
) -> RequestRejectedError:
    """Return a single-line error for a request that the API server will reject again.

    Args:
        error: Response of the API server.
        action: Verb and resource of the request.
        namespace: Namespace of the request.
        was_allowed: Whether the API server has accepted the same action before.
        missing: Clause of the message if the cluster does not have the resource type.
    """
    status, reason = int(error.status or 0), _reason(error)
    where = f"namespace {namespace}"
    if status == 401:
        cause = "; its service account or namespace may have been deleted" if was_allowed else ""
        message = f"credentials: rejected by the API server ({action}){cause}. Given: {where}"
    elif is_final(error):
        message = f"namespace: is being deleted; {action} was rejected. Given: {namespace}"
    elif status == FORBIDDEN and "exceeded quota" in reason:
        message = f"quota: exceeded in {where}; see line quota of {DOCTOR}. Given: {reason}"
    elif status == FORBIDDEN and "forbidden: User" in reason and was_allowed:
        message = (
            f"permission: {action} in {where} was revoked; a role or its binding may have been deleted "
            f"(deploy/rbac.yaml creates them). Given: {reason}"
        )
    elif status == FORBIDDEN and "forbidden: User" in reason:
        message = (
            f"permission: {action} in {where} is missing (deploy/rbac.yaml grants it), or the namespace does not "
            f"exist; see line rights of {DOCTOR}. Given: {reason}"
        )
    elif status == NOT_FOUND and "namespaces" in reason:
        message = f"namespace: does not exist. Given: {namespace}"
    elif status == NOT_FOUND and "page not found" in reason:
        message = f"cluster: {missing or 'this resource type does not exist'}. Given: {action} in {where}"
    else:
        message = f"{action} in {where}: rejected by the API server. Given: {reason}"
    return RequestRejectedError(message, status, is_final=is_final(error))


def is_final(error: ApiException) -> bool:
    """Return whether the error is caused by the deletion of the namespace."""
    return error.status == FORBIDDEN and "because it is being terminated" in _reason(error)


def is_unavailable(error: BaseException) -> bool:
    """Return whether the error is temporary, because the API server is overloaded, failing or unreachable."""
    if found := _api_error(error):
        return found.status in _UNAVAILABLE_STATUSES
    return isinstance(error, urllib3.exceptions.HTTPError | OSError)


def describe_error(error: BaseException) -> str:
    """Return the message of an API response, or the cause of a connection error, as a single line."""
    found = _api_error(error)
    return service_message(_reason(found) if found else _cause(error))


def _api_error(error: BaseException | None) -> ApiException | None:
    """Return the error if it is a response of the API server, or None."""
    from kubernetes.client import ApiException

    return error if isinstance(error, ApiException) else None


def _reason(error: ApiException) -> str:
    """Return the message of the Status object in a response."""
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else str(error.body or "")
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        body = str(json.loads(body)["message"])
    return body or str(error.reason)


def _cause(error: BaseException) -> str:
    """Return the cause of a connection error, without the class names of the library."""
    return str(error).rpartition(">: ")[2]


logger = logging.getLogger("qcnn")

# Time limits for retries, in seconds. Without any response, the address of the server is probably wrong.
FIRST_SECONDS = 20.0
# After a first response, even an error, an outage is temporary.
SECONDS = 600.0
# A server that rejects a previously allowed request may be starting, or may not have loaded a new role binding yet.
REJECTION_SECONDS = 15.0
_AUTH_STATUSES = (401, 403)
_ATTEMPTS_BEFORE_WARNING = 3


@dataclasses.dataclass
class RetryPolicy:
    """Retry policy of one API request.

    Attributes:
        action: Verb, resource and namespace of the request, for messages.
        has_answered: Returns whether the server has sent any response yet.
        was_allowed: Whether the server has accepted the same action before.
        report_outage: Records an outage, and returns whether it is a new one.
        max_seconds: Time limit for retries.
        clock: Returns the time in seconds.
    """

    action: str
    has_answered: Callable[[], bool]
    was_allowed: bool
    report_outage: Callable[[], bool] = lambda: True
    max_seconds: float = math.inf
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._rejected_since: float | None = None

    def retrying(self) -> tenacity.Retrying:
        """Return a callable that retries a function until it succeeds, or raises its last error."""
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda error: is_unavailable(error) or self._is_temporary(error)),
            wait=_wait,
            stop=self._is_over,
            before_sleep=self._warn,
            reraise=True,
        )

    def _is_temporary(self, error: BaseException | None) -> bool:
        """Return whether the server rejects a previously allowed action, and may allow it again."""
        return self.was_allowed and _is_auth_rejection(error)

    def _is_over(self, state: tenacity.RetryCallState) -> bool:
        """Return whether the next attempt would exceed the time limit."""
        now = self.clock()
        if not self._is_temporary(_error(state)):
            self._rejected_since = None
            since, seconds = self._began, SECONDS if self.has_answered() else FIRST_SECONDS
        else:
            self._rejected_since = now if self._rejected_since is None else self._rejected_since
            since, seconds = self._rejected_since, REJECTION_SECONDS
        next_attempt = now + state.upcoming_sleep
        return next_attempt - since >= seconds or next_attempt - self._began >= self.max_seconds

    def _warn(self, state: tenacity.RetryCallState) -> None:
        """Log a warning at the third failure of a request.

        An outage is logged for the first request only.
        """
        error = _error(state)
        if error is None or state.attempt_number != _ATTEMPTS_BEFORE_WARNING:
            return
        if self._is_temporary(error):
            what = f"{self.action} is rejected, although it was allowed before"
            logger.warning("%s (%s); retrying for %g s", what, describe_error(error), REJECTION_SECONDS)
        elif self.report_outage():
            logger.warning("%s (%s); retrying", UNAVAILABLE, describe_error(error))


def _is_auth_rejection(error: BaseException | None) -> bool:
    found = _api_error(error)
    return found is not None and found.status in _AUTH_STATUSES and not is_final(found)


def _error(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _wait(state: tenacity.RetryCallState) -> float:
    """Return the seconds until the next attempt, at least those of the Retry-After header."""
    wait = tenacity.wait_random_exponential(multiplier=0.5, max=10)(state)
    error = _api_error(_error(state))
    retry_after = (error.headers or {}).get("Retry-After", "") if error else ""
    return max(wait, float(retry_after)) if retry_after.isdigit() else wait
