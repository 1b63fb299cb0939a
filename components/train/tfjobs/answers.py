"""What the API server's answers mean to a user: one line each."""

import contextlib
import json

import kubernetes.client

from trainer.errors import ConfigError

NOT_FOUND = 404


class RefusedError(ConfigError):
    """What the server says no to, with the status of its answer."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def refused(error: kubernetes.client.ApiException, action: str, namespace: str) -> RefusedError:
    """Return an error of one line for an answer that another try would not change."""
    status, reason = int(error.status or 0), reason_of(error)
    where = f"namespace {namespace}"
    if status == 401:
        message = f"credentials: the API server does not accept them; {action} was refused. Given: {where}"
    elif status == 403 and "exceeded quota" in reason:
        message = f"quota: {where} has none left. Given: {reason}"
    elif status == 403 and "forbidden: User" in reason:
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
    return RefusedError(message, status)


def reason_of(error: kubernetes.client.ApiException) -> str:
    """Return the message of the Status object in an answer, in one line."""
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else str(error.body or "")
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        body = str(json.loads(body)["message"])
    return " ".join((body or str(error.reason)).split())


def cause_of(error: BaseException) -> str:
    """Return what broke a connection, without the library's names for it."""
    return " ".join(str(error).split()).rpartition(">: ")[2]
