"""Refusals of the API server in one line each, and which requests are tried again."""

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

from qcnn.errors import ConfigError, single_line

# The client library takes a third of a second to load: functions import it.
if TYPE_CHECKING:
    from kubernetes.client import ApiException

FORBIDDEN, NOT_FOUND = 403, 404
UNAVAILABLE = "the API server does not answer as it should"
# The client library gives a connection that breaks under TLS the status 0.
_BROKEN = (0, 429, 500, 502, 503, 504)


class RequestRejectedError(ConfigError):
    """The server refuses a request; `status` is that of its answer.

    `is_final`: whether it does so because the namespace is being deleted.
    """

    def __init__(self, message: str, status: int, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.is_final = is_final


def rejection(error: ApiException, action: str, namespace: str, *, was_allowed: bool) -> RequestRejectedError:
    """Return an error of one line for a request that will be refused again.

    `was_allowed`: whether the same was allowed before.
    """
    status, reason = int(error.status or 0), _reason(error)
    where = f"namespace {namespace}"
    if status == 401:
        no_more = " any more; was its service account deleted, or the namespace" if was_allowed else ""
        message = f"credentials: the API server does not accept them{no_more}; {action} was refused. Given: {where}"
    elif is_final(error):
        message = f"namespace: is being deleted; {action} was refused. Given: {namespace}"
    elif status == FORBIDDEN and "exceeded quota" in reason:
        message = f"quota: {where} has none left. Given: {reason}"
    elif status == FORBIDDEN and "forbidden: User" in reason and was_allowed:
        message = (
            f"permission: {action} in {where} was allowed and no longer is; was a role or its binding deleted "
            f"(deploy/rbac.yaml makes them)? Given: {reason}"
        )
    elif status == FORBIDDEN and "forbidden: User" in reason:
        message = (
            f"permission: {action} in {where} is missing (deploy/rbac.yaml grants it), or there is no such namespace. "
            f"Given: {reason}"
        )
    elif status == NOT_FOUND and "namespaces" in reason:
        message = f"namespace: does not exist. Given: {namespace}"
    elif status == NOT_FOUND and "page not found" in reason:
        message = f"cluster: it does not know TFJobs; is the training operator installed? Given: {action} in {where}"
    else:
        message = f"{action} in {where}: the API server refuses. Given: {reason}"
    return RequestRejectedError(message, status, is_final=is_final(error))


def is_final(error: ApiException) -> bool:
    """Whether the namespace is being deleted, in which nothing can be created any more."""
    return error.status == FORBIDDEN and "because it is being terminated" in _reason(error)


def is_broken(error: BaseException) -> bool:
    """Whether the server is busy, broken or gone, and may come back; every other error is a refusal."""
    if found := _api_error(error):
        return found.status in _BROKEN
    return isinstance(error, urllib3.exceptions.HTTPError | OSError)


def why(error: BaseException) -> str:
    """Return what an answer says, or what broke the connection, in one line."""
    found = _api_error(error)
    return single_line(_reason(found) if found else _cause(error))


def _api_error(error: BaseException | None) -> ApiException | None:
    """Return an error that is an answer of the server, None for any other."""
    from kubernetes.client import ApiException

    return error if isinstance(error, ApiException) else None


def _reason(error: ApiException) -> str:
    """Return the message of the Status object in an answer."""
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else str(error.body or "")
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        body = str(json.loads(body)["message"])
    return body or str(error.reason)


def _cause(error: BaseException) -> str:
    """Return what broke a connection, without the library's names for it."""
    return str(error).rpartition(">: ")[2]


logger = logging.getLogger("qcnn")

# In seconds: a server that never answered probably has a wrong address; one that has answered, even with an error, will
# come back; one that refuses what it has allowed before may be starting, or not know yet of a right that was given.
FIRST_SECONDS = 20.0
SECONDS = 600.0
REJECTION_SECONDS = 15.0
_AUTH_STATUSES = (401, 403)
_TRIES_BEFORE_WARNING = 3


@dataclasses.dataclass
class RetryPolicy:
    """Decides after each try of the request `action` whether it is tried again, and when.

    `has_answered` tells whether the server has answered anything yet, `was_allowed` whether it has allowed the same
    before. `report_outage` records that the server is not answering, and returns whether that was unknown. No request
    is tried for longer than `longest` seconds.
    """

    action: str
    has_answered: Callable[[], bool]
    was_allowed: bool
    report_outage: Callable[[], bool] = lambda: True
    longest: float = math.inf
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._rejected_since: float | None = None

    def retrying(self) -> tenacity.Retrying:
        """Return what calls a function until it succeeds; where it never does, its last error is raised."""
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda error: is_broken(error) or self._may_pass(error)),
            wait=_wait,
            stop=self._is_over,
            before_sleep=self._warn,
            reraise=True,
        )

    def _may_pass(self, error: BaseException | None) -> bool:
        """Whether the server refuses what it has allowed before, and may allow again."""
        return self.was_allowed and _is_auth_rejection(error)

    def _is_over(self, state: tenacity.RetryCallState) -> bool:
        """Whether the next try would come too late."""
        now = self.clock()
        if not self._may_pass(_error(state)):
            self._rejected_since = None
            since, seconds = self._began, SECONDS if self.has_answered() else FIRST_SECONDS
        else:
            self._rejected_since = now if self._rejected_since is None else self._rejected_since
            since, seconds = self._rejected_since, REJECTION_SECONDS
        next_try = now + state.upcoming_sleep
        return next_try - since >= seconds or next_try - self._began >= self.longest

    def _warn(self, state: tenacity.RetryCallState) -> None:
        """Log a warning when a request has failed three times: for a refusal of each, for an outage of the first."""
        error = _error(state)
        if error is None or state.attempt_number != _TRIES_BEFORE_WARNING:
            return
        if self._may_pass(error):
            what = f"{self.action} is refused, though it was allowed before"
            logger.warning("%s (%s); trying again for %g s", what, why(error), REJECTION_SECONDS)
        elif self.report_outage():
            logger.warning("%s (%s); trying again", UNAVAILABLE, why(error))


def _is_auth_rejection(error: BaseException | None) -> bool:
    found = _api_error(error)
    return found is not None and found.status in _AUTH_STATUSES and not is_final(found)


def _error(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _wait(state: tenacity.RetryCallState) -> float:
    """Return the seconds to the next try, at least those that the server asks for."""
    wait = tenacity.wait_random_exponential(multiplier=0.5, max=10)(state)
    found = _api_error(_error(state))
    asked = (found.headers or {}).get("Retry-After", "") if found else ""
    return max(wait, float(asked)) if asked.isdigit() else wait
