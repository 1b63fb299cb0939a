"""How long a request is tried again, without waiting for it."""

import pytest

from qcnn.jobs.vertex.client import FIRST_SECONDS, SECONDS, call_with_retries, exceptions


class _Server:
    """Fails in one way until a time; `now` goes on by what is slept."""

    def __init__(self, error: Exception, until: float) -> None:
        self.error, self.until, self.now, self.calls = error, until, 0.0, 0

    def answer(self) -> str:
        self.calls += 1
        if self.now < self.until:
            raise self.error
        return "yes"

    def ask(self, *, answered: bool) -> str:
        return str(call_with_retries("ask", lambda: answered, lambda: self.now, self._sleep)(self.answer))

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
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    assert _Server(error, FIRST_SECONDS / 4).ask(answered=False) == "yes"
    assert _Server(error, SECONDS / 2).ask(answered=True) == "yes"


@pytest.mark.parametrize(("answered", "seconds"), [(False, FIRST_SECONDS), (True, SECONDS)])
def test_a_server_that_has_answered_is_waited_for_longer(answered: bool, seconds: float) -> None:
    server = _Server(exceptions.ServiceUnavailable("broken"), 1e9)
    with pytest.raises(exceptions.ServiceUnavailable):
        server.ask(answered=answered)
    assert seconds - 10 <= server.now <= seconds


@pytest.mark.parametrize(
    "error",
    [exceptions.PermissionDenied("no"), exceptions.InvalidArgument("no"), exceptions.MethodNotImplemented("no")],
)
def test_a_refusal_is_not_tried_again(error: Exception) -> None:
    server = _Server(error, 1e9)
    with pytest.raises(type(error)):
        server.ask(answered=True)
    assert server.calls == 1
