"""Local-only ports, proxies, and errors about other processes of a training job."""

import contextlib
import logging
import queue
import socket
from collections.abc import Iterator

import psutil
import pytest
import tensorflow as tf

from qcnn.errors import RetryableError
from qcnn.process.exit_codes import RETRYABLE
from qcnn.trainer.distribution.joining import (
    connect_directly,
    exit_barrier,
    join_timeout,
    joining,
    restrict_port_to_localhost,
    restrict_to_localhost,
    translate_address_error,
    translate_peer_errors,
)
from qcnn.trainer.distribution.roles import ClusterConfig

CLUSTER = ClusterConfig({"worker": ("train-worker-0.team.svc:2222", "127.0.0.1:80"), "ps": ("[::1]:80",)}, "worker", 0)
HOSTS = "train-worker-0.team.svc,127.0.0.1,::1"


@pytest.mark.parametrize(
    ("environment", "exempt"),
    [
        ({}, HOSTS),
        ({"no_proxy": "a.org,127.0.0.1"}, "a.org,127.0.0.1,train-worker-0.team.svc,::1"),
        # gRPC ignores no_proxy if no_grpc_proxy is set.
        ({"no_proxy": "a.org", "no_grpc_proxy": "b.org"}, f"b.org,{HOSTS}"),
    ],
)
def test_connect_directly_exempts_hosts_from_proxies(environment: dict[str, str], exempt: str) -> None:
    before = dict(environment)
    connect_directly(CLUSTER, environment)
    assert environment == {**before, "no_grpc_proxy": exempt}
    connect_directly(CLUSTER, environment)
    assert environment["no_grpc_proxy"] == exempt


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Server on all interfaces, like TensorFlow's servers."""
    with socket.create_server(("", 0)) as server:
        yield server


@pytest.fixture
def outside() -> str:
    """Non-loopback address of this machine."""
    addresses = [
        each.address for all_of in psutil.net_if_addrs().values() for each in all_of if each.family == socket.AF_INET
    ]
    for address in addresses:
        if not address.startswith("127."):
            return str(address)
    pytest.skip("this machine has no address but its own")


def _answers(host: str, port: int) -> bool:
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection((host, port)).close()
        return True
    return False


def test_restrict_port_changes_only_that_port(server: socket.socket, outside: str) -> None:
    with socket.create_server(("", 0)) as other:
        assert restrict_port_to_localhost(server.getsockname()[1])
        for listening, open_to_others in ((server, False), (other, True)):
            port = listening.getsockname()[1]
            assert _answers("127.0.0.1", port)
            assert _answers(outside, port) == open_to_others
    # Only duplicates of the descriptor were closed.
    assert server.fileno() != -1


@pytest.mark.parametrize(
    ("other", "is_closed"), [("127.0.0.1:1", True), ("localhost:1", True), ("[::1]:1", True), ("worker-1.svc:1", False)]
)
def test_restrict_to_localhost_only_for_local_cluster(
    server: socket.socket, outside: str, other: str, is_closed: bool
) -> None:
    port = server.getsockname()[1]
    restrict_to_localhost(ClusterConfig({"worker": (f"127.0.0.1:{port}", other)}, "worker", 0))
    assert _answers(outside, port) != is_closed


def test_restrict_to_localhost_without_server_does_nothing() -> None:
    restrict_to_localhost(ClusterConfig({"worker": ("127.0.0.1:1",)}, "evaluator", 0))
    restrict_to_localhost(None)


def test_restrict_port_failure_is_logged(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("qcnn.process.operating_system._LOOPBACK", b"nothing\0")
    port = server.getsockname()[1]
    with caplog.at_level(logging.WARNING, "qcnn"):
        assert not restrict_port_to_localhost(port)
    assert caplog.messages == [f"port {port} remains open to other machines ([Errno 19] No such device)"]


WORKERS = ClusterConfig({"worker": ("127.0.0.1:2222", "127.0.0.1:2223", "127.0.0.1:2224")}, "worker", 1)
WITH_CHIEF = ClusterConfig({"chief": ("127.0.0.1:2222",), "worker": ("127.0.0.1:2223",)}, "worker", 0)


@pytest.mark.parametrize(
    ("cluster", "message", "line"),
    [
        (
            WORKERS,
            "Collective ops is aborted by: failed to connect to all addresses\nfrom remote task "
            "/job:worker/replica:0/task:2",
            "lost worker 2: failed to connect to all addresses",
        ),
        # An error without the name of another process is attributed to the chief or worker 0.
        (WORKERS, "/job:worker/replica:0/task:1: heartbeat", "lost worker 0: /job:worker/replica:0/task:1: heartbeat"),
        (WITH_CHIEF, "no answer\nand more", "lost chief 0: no answer"),
    ],
)
def test_translate_peer_errors_has_name_of_process(cluster: ClusterConfig, message: str, line: str) -> None:
    with pytest.raises(RetryableError) as error, translate_peer_errors(cluster):
        raise tf.errors.UnavailableError(None, None, message)
    assert str(error.value) == line


REMOTE = ClusterConfig({"worker": ("worker-0.svc:2222", "worker-1.svc:2222")}, "worker", 0)


@pytest.mark.parametrize(
    ("cluster", "heartbeat_timeout_seconds", "seconds"),
    # Local processes may start late on a busy machine.
    [(WORKERS, 60.0, 600.0), (WORKERS, 900.0, 900.0), (REMOTE, 60.0, 3600.0)],
)
def test_join_timeout_is_that_of_start(
    cluster: ClusterConfig, heartbeat_timeout_seconds: float, seconds: float
) -> None:
    assert join_timeout(cluster, heartbeat_timeout_seconds) == seconds


def test_joining_without_peer_exits_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    exits = queue.SimpleQueue[tuple[str, int]]()
    monkeypatch.setattr("qcnn.trainer.distribution.joining.START_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr("qcnn.trainer.distribution.joining.connect_directly", lambda *_: None)
    monkeypatch.setattr(
        "qcnn.trainer.distribution.joining.exit_with_message", lambda reason, code: exits.put((reason, code))
    )
    cluster = ClusterConfig({"worker": ("127.0.0.1:1", "127.0.0.1:2")}, "worker", 0)
    with joining(cluster, 0.05):
        reason, code = exits.get(timeout=60)
    assert reason == "error: lost worker 1 (no answer at 127.0.0.1:2), after 0.1 s of waiting"
    assert code == RETRYABLE


def test_exit_barrier_reports_only_peers_before_barrier() -> None:
    def meet() -> None:
        if not ended.pop(0):
            raise tf.errors.UnavailableError(None, None, "/job:worker/replica:0/task:2: Socket closed")

    ended = [False]
    with pytest.raises(RetryableError, match=r"^lost worker 2: .*Socket closed$"):
        exit_barrier(meet, WORKERS)
    ended = [True, False]
    exit_barrier(meet, WORKERS)
    assert not ended


def test_translate_peer_errors_without_cluster_reraises() -> None:
    with pytest.raises(tf.errors.UnavailableError), translate_peer_errors(None):
        raise tf.errors.UnavailableError(None, None, "not a peer")


def test_translate_address_error_has_address() -> None:
    message = r"which may be in use\. Given: 127\.0\.0\.1:2223$"
    with pytest.raises(RetryableError, match=message), translate_address_error(WORKERS):
        raise tf.errors.UnknownError(None, None, "Could not start gRPC server")
    with pytest.raises(RuntimeError, match=r"^something else$"), translate_address_error(WORKERS):
        raise RuntimeError("something else")
