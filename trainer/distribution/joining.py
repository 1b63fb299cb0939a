"""Connections to the other processes of a training job: timeouts, errors, proxies and open ports."""

import contextlib
import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, MutableMapping

import tensorflow as tf

from qcnn.errors import RetryableError, single_line
from qcnn.process.exit_codes import RETRYABLE
from qcnn.process.library_loading import START_TIMEOUT_SECONDS
from qcnn.process.operating_system import bind_to_loopback, descriptors
from qcnn.process.standard_streams import ERROR, exit_with_message
from qcnn.tensorflow_internals import without_interpreter_lock
from qcnn.trainer.distribution.roles import ClusterConfig

logger = logging.getLogger("qcnn")

_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.DeadlineExceededError)
_PEER = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")

# Timeout for processes on other machines, whose pods may start late, in seconds. TensorFlow has the same limit.
_REMOTE_SECONDS = 3600.0
# Seconds after which the log lists the processes that do not respond.
_NOTE_SECONDS = 30.0
# Timeout of a TCP connection, in seconds.
_CONNECT_SECONDS = 1.0


def join_timeout(cluster: ClusterConfig, heartbeat_timeout_seconds: float) -> float:
    """Return the timeout for the other processes of a training job to join, in seconds.

    A local process that does not start or hangs is restarted by its parent process.
    """
    return max(heartbeat_timeout_seconds, START_TIMEOUT_SECONDS) if cluster.is_local else _REMOTE_SECONDS


@contextlib.contextmanager
def joining(cluster: ClusterConfig | None, heartbeat_timeout_seconds: float) -> Iterator[None]:
    """Context manager for a block in which TensorFlow waits for the other processes of the training job.

    Other threads of this process continue to handle signals, heartbeats and metrics. If the block takes longer than
    `join_timeout`, this process exits with a message that lists the processes that do not respond.

    Raises:
        ConfigError: If TensorFlow lacks a function for this.
    """
    if cluster is None:
        yield
        return
    connect_directly(cluster, os.environ)
    joined = threading.Event()
    arguments = (cluster, join_timeout(cluster, heartbeat_timeout_seconds), joined)
    threading.Thread(target=_end_after, args=arguments, name="joining", daemon=True).start()
    try:
        with without_interpreter_lock():
            yield
    finally:
        joined.set()


def answers(address: str) -> bool:
    """Return whether a process accepts TCP connections at host:port."""
    host, _, port = address.rpartition(":")
    with (
        contextlib.suppress(OSError),
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS),
    ):
        return True
    return False


def _end_after(cluster: ClusterConfig, seconds: float, joined: threading.Event) -> None:
    """Exit if the other processes have not joined within the timeout."""
    first = min(_NOTE_SECONDS, seconds)
    if joined.wait(first):
        return
    if first < seconds:
        logger.warning("waiting for %s", _missing(cluster))
        if joined.wait(seconds - first):
            return
    missing = _missing(cluster)
    # The other processes may have joined while `_missing` connected to them.
    if not joined.is_set():
        exit_with_message(f"{ERROR}lost {missing}, after {seconds:g} s of waiting", RETRYABLE)


def _missing(cluster: ClusterConfig) -> str:
    """Return the names and addresses of the other processes that do not respond."""
    missing = [
        f"{role} {index} (no answer at {address})"
        for role, addresses in cluster.training_addresses.items()
        for index, address in enumerate(addresses)
        if (role, index) != (cluster.role, cluster.index) and not answers(address)
    ]
    return ", ".join(missing) or "a process that responds, but does not join"


# Variables with hosts to which gRPC connects without a proxy. gRPC uses the first that is set
# (github.com/grpc/grpc, doc/environment_variables.md).
_EXCEPTIONS = ("no_grpc_proxy", "no_proxy")


def connect_directly(cluster: ClusterConfig, environment: MutableMapping[str, str]) -> None:
    """Exempt the hosts of a cluster from the proxy variables of gRPC in an environment.

    gRPC would use the proxy of grpc_proxy, https_proxy or http_proxy for all connections, including local ones.
    """
    named = next((environment[name] for name in _EXCEPTIONS if environment.get(name)), "")
    exempt = [name for name in named.split(",") if name]
    for addresses in cluster.addresses.values():
        for address in addresses:
            host = address.rpartition(":")[0].strip("[]")
            if host not in exempt:
                exempt.append(host)
    environment[_EXCEPTIONS[0]] = ",".join(exempt)


_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def restrict_to_localhost(cluster: ClusterConfig | None) -> None:
    """Restrict this process' TensorFlow server to local connections if the whole cluster is local.

    Until then the server listens on all interfaces, because TensorFlow starts it and then waits for other processes.
    """
    if cluster and cluster.is_local and (hosts := cluster.addresses.get(cluster.role)):
        restrict_port_to_localhost(int(hosts[cluster.index].rpartition(":")[2]))


def restrict_port_to_localhost(port: int) -> bool:
    """Restrict sockets of this process that listen on a port to local connections.

    Listening sockets can be bound to an interface on some operating systems only. On others a warning is logged.

    Returns:
        Whether the port accepts local connections only.
    """
    for listening in _listening():
        with listening:
            if listening.getsockname()[1] != port:
                continue
            try:
                bind_to_loopback(listening)
            except OSError as error:
                logger.warning("port %d remains open to other machines (%s)", port, single_line(error))
                return False
    return True


def _listening() -> Iterator[socket.socket]:
    """Yield a duplicate, to be closed by the caller, of each listening socket of this process."""
    for number in descriptors():
        try:
            descriptor = os.dup(number)
        except OSError:
            # The descriptor of the listing itself, or one that was closed in the meantime.
            continue
        try:
            duplicate = socket.socket(fileno=descriptor)
        except OSError:
            os.close(descriptor)
            continue
        if duplicate.family in _FAMILIES and duplicate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            yield duplicate
        else:
            duplicate.close()


@contextlib.contextmanager
def translate_peer_errors(cluster: ClusterConfig | None) -> Iterator[None]:
    """Context manager that translates TensorFlow's errors about another process into a single-line error.

    Raises:
        RetryableError: If another process ended or does not respond. TensorFlow checks this every few seconds.
    """
    try:
        yield
    except _LOST as error:
        if cluster is None:
            raise
        others = [peer for peer in _PEER.findall(error.message) if peer != (cluster.role, str(cluster.index))]
        # Errors without the name of a process are about the chief, or worker 0 if there is no chief.
        chief = "chief 0" if "chief" in cluster.addresses else "worker 0"
        name = " ".join(others[0]) if others else chief
        raise RetryableError(f"lost {name}: {_reason(error.message)}") from None


def exit_barrier(meet: Callable[[], object], cluster: ClusterConfig) -> None:
    """Wait until all processes of the training job have reached this call.

    Args:
        meet: Collective operation, which waits until all processes call it.
        cluster: Cluster of this process.

    Raises:
        RetryableError: If another process fails before it reaches this call.
    """
    with translate_peer_errors(cluster):
        meet()
    # Data that a process has sent is lost when it exits before others have received it, and they would report an error.
    # All processes have passed the first barrier, so errors of the second one can be ignored.
    with contextlib.suppress(RetryableError), translate_peer_errors(cluster):
        meet()


@contextlib.contextmanager
def translate_address_error(cluster: ClusterConfig | None) -> Iterator[None]:
    """Context manager that translates TensorFlow's error about a used port into an error with the address.

    Raises:
        RetryableError: If another process listens on the port of this process.
    """
    try:
        yield
    except (tf.errors.UnknownError, RuntimeError) as error:
        if cluster is None or "Could not start gRPC server" not in str(error):
            raise
        address = cluster.addresses[cluster.role][cluster.index]
        raise RetryableError(f"cannot listen on this worker's address, which may be in use. Given: {address}") from None


def _reason(message: str) -> str:
    """Return the relevant part of TensorFlow's message as a single line."""
    (line, *_) = [line for line in message.splitlines() if "aborted by" in line] or [message.splitlines()[0]]
    return line.split("aborted by: ")[-1].strip()
