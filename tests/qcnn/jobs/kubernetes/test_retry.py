"""Retries of requests, with an HTTP server that returns the responses of a real API server."""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import kubernetes.client
import pytest
import tenacity
import urllib3
import yaml

from qcnn.errors import ConfigError, RetryableError
from qcnn.jobs.kubernetes import retry
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.retry import FIRST_SECONDS, REJECTION_SECONDS, SECONDS, RetryPolicy
from qcnn.jobs.tfjob.engine import TFJOBS

UNREACHABLE = urllib3.exceptions.ConnectTimeoutError()
FORBIDDEN = 'leases is forbidden: User "a" cannot patch resource "leases"'
ENDING = "unable to create new content in namespace a because it is being terminated"
WEBHOOK = 'Internal error occurred: failed calling webhook "validator": context deadline exceeded'
Answer = tuple[int, str]


def _answer(status: int, message: str = "") -> kubernetes.client.ApiException:
    error = kubernetes.client.ApiException(status=status)
    error.body = json.dumps({"message": message})
    return error


@pytest.mark.parametrize(
    ("has_answered", "was_allowed", "answers", "expected"),
    [
        # Responses with their time in seconds.
        (False, False, [(FIRST_SECONDS - 1, UNREACHABLE)], True),
        (False, False, [(FIRST_SECONDS, UNREACHABLE)], False),
        (True, False, [(FIRST_SECONDS, UNREACHABLE)], True),
        (True, False, [(SECONDS - 1, _answer(500, WEBHOOK))], True),
        (True, False, [(SECONDS, _answer(500, WEBHOOK))], False),
        # An action that was never allowed is not retried.
        (True, False, [(0, _answer(403, FORBIDDEN))], False),
        (True, False, [(0, _answer(401))], False),
        (True, True, [(0, _answer(403, FORBIDDEN))], True),
        (True, True, [(0, _answer(401))], True),
        # The time limit starts at the first of consecutive rejections.
        (True, True, [(300, UNREACHABLE), (301, _answer(403, FORBIDDEN))], True),
        (True, True, [(1, _answer(403, FORBIDDEN)), (REJECTION_SECONDS, _answer(401))], True),
        (True, True, [(1, _answer(403, FORBIDDEN)), (1 + REJECTION_SECONDS, _answer(401))], False),
        (True, True, [(1, _answer(403, FORBIDDEN)), (2, UNREACHABLE), (REJECTION_SECONDS + 1, _answer(401))], True),
        (True, True, [(0, _answer(403, ENDING))], False),
        (True, True, [(0, _answer(409))], False),
    ],
)
def test_retry_policy_depends_on_responses(
    has_answered: bool, was_allowed: bool, answers: list[tuple[float, Exception]], expected: bool
) -> None:
    now = 0.0
    policy = RetryPolicy("patch leases", lambda: has_answered, was_allowed, clock=lambda: now)
    retrying = policy.retrying()
    for now, error in answers:  # noqa: B007
        state = tenacity.RetryCallState(retrying, None, (), {})
        state.set_exception((type(error), error, None))
        is_retried = retrying.retry(state) and not retrying.stop(state)
    assert is_retried is expected


# As by a quota with four resources.
QUOTA = (
    'pods "qcnn-train-0-1f2e3d4c-worker-0" is forbidden: exceeded quota: compute, requested: limits.cpu=16,'
    "limits.memory=64Gi,requests.cpu=16,requests.memory=64Gi, used: limits.cpu=8,limits.memory=32Gi,requests.cpu=8,"
    "requests.memory=32Gi, limited: limits.cpu=16,limits.memory=64Gi,requests.cpu=16,requests.memory=64Gi"
)


def test_rejection_quota_message_is_complete() -> None:
    rejected = retry.rejection(_answer(403, QUOTA), "create pods", "a", was_allowed=True)
    assert str(rejected) == (
        f"quota: exceeded in namespace a; see line quota of `qcnn doctor --target kubernetes`. Given: {QUOTA}"
    )
    assert retry.describe_error(_answer(403, QUOTA)) == QUOTA


class _Server:
    """HTTP server with scripted responses, which repeats the last one."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}
        self.requests: list[str] = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.requests.append(self.command)
                answers = server.answers[self.command]
                status, message = answers.pop(0) if len(answers) > 1 else answers[0]
                body = json.dumps({"message": message, "metadata": {"name": "a"}}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[_Server]:
    with contextlib.closing(_Server()) as server:
        yield server


@pytest.fixture
def api(server: _Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[NamespaceClient]:
    """Client of the server that retries without delay."""
    path = tmp_path / "kubeconfig"
    named = {
        "clusters": [{"name": "a", "cluster": {"server": server.url}}],
        "users": [{"name": "a", "user": {"token": "a"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "a", **named}))
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setattr(retry, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(retry, "_wait", lambda _: 0.0)
    with contextlib.closing(NamespaceClient("a")) as api:
        yield api


def test_request_is_retried_after_any_response(server: _Server, api: NamespaceClient) -> None:
    server.answers = {"GET": [(404, 'tfjobs "a" not found')], "POST": [(500, WEBHOOK)] * 5 + [(201, "")]}
    assert api.get(TFJOBS, "a") is None
    assert api.create(TFJOBS, {})
    assert server.requests == ["GET", *["POST"] * 6]


def test_request_is_retried_if_first_response_is_500(server: _Server, api: NamespaceClient) -> None:
    server.answers = {"POST": [(500, WEBHOOK)] * 5 + [(201, "")]}
    assert api.create(TFJOBS, {})


def test_clients_with_own_connections_share_server_state(
    server: _Server, api: NamespaceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    def wait(_: object) -> float:
        nonlocal tries
        tries += 1
        return 0.0

    monkeypatch.setattr(retry, "_wait", wait)
    monkeypatch.setattr(retry, "SECONDS", 0.2)
    server.answers = {"GET": [(404, "")]}
    with contextlib.closing(api.with_own_connections()) as apart:
        assert api.get(TFJOBS, "a") is None
        server.close()
        with pytest.raises(RetryableError):
            apart.get(TFJOBS, "a")
    assert tries > 1


def test_request_without_any_response_is_an_error(server: _Server, api: NamespaceClient) -> None:
    server.close()
    with pytest.raises(RetryableError, match=r"^the API server is unavailable \(.*\)\. Given: http"):
        api.get(TFJOBS, "a")


def test_limited_client_does_not_retry(server: _Server, api: NamespaceClient) -> None:
    server.answers = {"GET": [(404, "")], "DELETE": [(500, "")]}
    assert api.get(TFJOBS, "a") is None
    with pytest.raises(RetryableError):
        api.limited_to(0.0).delete(TFJOBS, "a")
    assert server.requests == ["GET", "DELETE"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            (403, FORBIDDEN),
            "^permission: create tfjobs in namespace a was revoked; a role or its binding may",
        ),
        (
            (401, "Unauthorized"),
            r"^credentials: rejected by the API server \(create tfjobs\); its service account or",
        ),
    ],
    ids=["permission", "credentials"],
)
def test_revoked_permission_is_an_error_after_retries(
    server: _Server, api: NamespaceClient, monkeypatch: pytest.MonkeyPatch, answer: Answer, message: str
) -> None:
    server.answers = {"POST": [(201, ""), answer, answer, answer, (201, "")]}
    assert api.create(TFJOBS, {})
    assert api.create(TFJOBS, {})
    monkeypatch.setattr(retry, "REJECTION_SECONDS", 0.0)
    server.answers = {"POST": [answer]}
    with pytest.raises(ConfigError, match=message):
        api.create(TFJOBS, {})


def test_ending_namespace_is_an_error_without_retry(server: _Server, api: NamespaceClient) -> None:
    server.answers = {"POST": [(201, ""), (403, ENDING)]}
    assert api.create(TFJOBS, {})
    with pytest.raises(ConfigError, match=r"^namespace: is being deleted; create tfjobs was rejected\. Given: a$"):
        api.create(TFJOBS, {})
    assert server.requests == ["POST", "POST"]


def test_revoked_permission_is_logged_during_retries(
    server: _Server, api: NamespaceClient, caplog: pytest.LogCaptureFixture
) -> None:
    server.answers = {"POST": [(201, ""), *[(403, FORBIDDEN)] * 3, (201, "")]}
    assert api.create(TFJOBS, {})
    assert api.create(TFJOBS, {})
    message = (
        f"create tfjobs in namespace a is rejected, although it was allowed before ({FORBIDDEN}); retrying for 15 s"
    )
    assert caplog.messages == [message]


def test_outage_is_logged_once_for_all_requests(
    server: _Server, api: NamespaceClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "SECONDS", 0.1)
    server.answers = {"GET": [(500, WEBHOOK)], "POST": [(500, WEBHOOK)], "DELETE": [(404, "")]}
    with contextlib.closing(api.with_own_connections()) as apart:
        api.delete(TFJOBS, "a")
        for client in (api, apart):
            with pytest.raises(RetryableError):
                client.get(TFJOBS, "a")
        with pytest.raises(RetryableError):
            api.create(TFJOBS, {})
        outage = f"the API server is unavailable ({WEBHOOK}); retrying"
        assert caplog.messages == [outage]
        # A second outage is logged again.
        server.answers["GET"] = [(404, ""), (500, WEBHOOK)]
        assert apart.get(TFJOBS, "a") is None
        with pytest.raises(RetryableError):
            api.get(TFJOBS, "a")
    assert caplog.messages == [outage, outage]
