"""Retry timeouts of Vertex AI requests, with a fake clock."""

import pytest

from qcnn.jobs.vertex.client import FIRST_SECONDS, SECONDS, call_with_retries, exceptions


class _Server:
    """Server that raises an error until a time. Sleeping advances `now`."""

    def __init__(self, error: Exception, until: float) -> None:
        self.error, self.until, self.now, self.calls = error, until, 0.0, 0

    def respond(self) -> str:
        self.calls += 1
        if self.now < self.until:
            raise self.error
        return "yes"

    def request(self, *, answered: bool) -> str:
        return str(call_with_retries("request", lambda: answered, lambda: self.now, self._sleep)(self.respond))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ServiceUnavailable("broken"),
        exceptions.ResourceExhausted("too often"),
        exceptions.DeadlineExceeded("late"),
        ConnectionResetError("gone"),
    ],
)
def test_call_with_retries_transient_error_is_retried(error: Exception) -> None:
    assert _Server(error, FIRST_SECONDS / 4).request(answered=False) == "yes"
    assert _Server(error, SECONDS / 2).request(answered=True) == "yes"


@pytest.mark.parametrize(("answered", "seconds"), [(False, FIRST_SECONDS), (True, SECONDS)])
def test_call_with_retries_timeout_depends_on_first_response(answered: bool, seconds: float) -> None:
    server = _Server(exceptions.ServiceUnavailable("broken"), 1e9)
    with pytest.raises(exceptions.ServiceUnavailable):
        server.request(answered=answered)
    assert seconds - 10 <= server.now <= seconds


@pytest.mark.parametrize(
    "error",
    [exceptions.PermissionDenied("no"), exceptions.InvalidArgument("no"), exceptions.MethodNotImplemented("no")],
)
def test_call_with_retries_rejection_is_not_retried(error: Exception) -> None:
    server = _Server(error, 1e9)
    with pytest.raises(type(error)):
        server.request(answered=True)
    assert server.calls == 1
