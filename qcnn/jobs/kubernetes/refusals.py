"""What refusals of the API server mean to a user, in one line each."""

import contextlib
import json

import kubernetes.client
import urllib3

from qcnn.trainer.errors import ConfigError, one_line

FORBIDDEN, NOT_FOUND = 403, 404
NO_ANSWER = "the API server does not answer as it should"
# The client library gives a connection that breaks under TLS the status 0.
_BROKEN = (0, 429, 500, 502, 503, 504)


class RefusedError(ConfigError):
    """The server refuses a request; `status` is that of its answer.

    `is_final`: whether it does so because the namespace is being deleted.
    """

    def __init__(self, message: str, status: int, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.is_final = is_final


def refused(error: kubernetes.client.ApiException, action: str, namespace: str, *, was_allowed: bool) -> RefusedError:
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
    return RefusedError(message, status, is_final=is_final(error))


def is_final(error: kubernetes.client.ApiException) -> bool:
    """Whether the namespace is being deleted, in which nothing can be created any more."""
    return error.status == FORBIDDEN and "because it is being terminated" in _reason(error)


def is_broken(error: BaseException) -> bool:
    """Whether the server is busy, broken or gone, and may come back; every other error is a refusal."""
    if isinstance(error, kubernetes.client.ApiException):
        return error.status in _BROKEN
    return isinstance(error, urllib3.exceptions.HTTPError | OSError)


def why(error: BaseException) -> str:
    """Return what an answer says, or what broke the connection, in one line."""
    return one_line(_reason(error) if isinstance(error, kubernetes.client.ApiException) else _cause(error))


def _reason(error: kubernetes.client.ApiException) -> str:
    """Return the message of the Status object in an answer."""
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else str(error.body or "")
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        body = str(json.loads(body)["message"])
    return body or str(error.reason)


def _cause(error: BaseException) -> str:
    """Return what broke a connection, without the library's names for it."""
    return str(error).rpartition(">: ")[2]
