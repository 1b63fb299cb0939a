"""Wait for the other processes of a training: with a limit, and while the threads of this process go on."""

import contextlib
import ctypes
import functools
import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe

from qcnn.errors import RetryableError, single_line
from qcnn.operating_system import bind_to_machine, descriptors, shared_library
from qcnn.startup import ERROR, RETRYABLE, end_now
from qcnn.trainer.distribution.roles import ClusterConfig

logger = logging.getLogger("qcnn")

_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.DeadlineExceededError)
_PEER = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")

# The longest wait for processes on other machines, whose pods may start late, in seconds: TensorFlow's own limit.
_ELSEWHERE_SECONDS = 3600.0
# Seconds of waiting after which the log names the processes that do not answer.
_NOTE_SECONDS = 30.0
# The longest wait for a TCP connection, in seconds.
_CONNECT_SECONDS = 1.0


def limit(cluster: ClusterConfig, heartbeat_timeout_seconds: float) -> float:
    """Return how long to wait for the other processes of a training, in seconds."""
    return heartbeat_timeout_seconds if cluster.is_here else _ELSEWHERE_SECONDS


@contextlib.contextmanager
def joining(cluster: ClusterConfig | None, heartbeat_timeout_seconds: float) -> Iterator[None]:
    """Context manager for a block in which TensorFlow waits for the other processes of the training.

    All threads of this process go on meanwhile: signals, signs of life and metrics are served. If the block takes
    longer than `limit`, this process ends with a line that names the processes that do not answer.
    """
    if cluster is None:
        yield
        return
    connect_directly(cluster, os.environ)
    joined = threading.Event()
    arguments = (cluster, limit(cluster, heartbeat_timeout_seconds), joined)
    threading.Thread(target=_end_after, args=arguments, name="joining", daemon=True).start()
    try:
        with _unlocked():
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
    """End this process if the others have not joined after so many seconds."""
    first = min(_NOTE_SECONDS, seconds)
    if joined.wait(first):
        return
    if first < seconds:
        logger.warning("waiting for %s", _missing(cluster))
        if joined.wait(seconds - first):
            return
    missing = _missing(cluster)
    # It may have joined while the others were connected to.
    if not joined.is_set():
        end_now(f"{ERROR}lost {missing}, after {seconds:g} s of waiting", RETRYABLE)


def _missing(cluster: ClusterConfig) -> str:
    """Return the names of the other processes that do not answer, with their addresses."""
    missing = [
        f"{role} {index} (no answer at {address})"
        for role, addresses in cluster.training_addresses.items()
        for index, address in enumerate(addresses)
        if (role, index) != (cluster.role, cluster.index) and not answers(address)
    ]
    return ", ".join(missing) or "a process that answers, but does not join"


@contextlib.contextmanager
def _unlocked() -> Iterator[None]:
    """Context manager in which TensorFlow does not hold Python's interpreter lock while it joins a cluster.

    TensorFlow's own binding of this one function holds the lock until all processes are there.
    """
    original = pywrap_tfe.TFE_EnableCollectiveOps
    pywrap_tfe.TFE_EnableCollectiveOps = _enable_collective_ops
    try:
        yield
    finally:
        pywrap_tfe.TFE_EnableCollectiveOps = original


def _enable_collective_ops(context: object, server: bytes) -> None:
    """Call TFE_EnableCollectiveOps of TensorFlow's C interface (tensorflow/c/eager/c_api_experimental.h).

    Args:
        context: capsule of the TFE_Context.
        server: serialized ServerDef.

    Raises:
        tf.errors.OpError: if this process cannot listen at its address, or another is lost.
    """
    library = _library()
    status = library.TF_NewStatus()
    try:
        library.TFE_EnableCollectiveOps(_pointer(context), server, len(server), status)
        code, message = library.TF_GetCode(status), library.TF_Message(status).decode(errors="replace")
    finally:
        library.TF_DeleteStatus(status)
    if code:
        raise tf.compat.v1.errors.exception_type_from_error_code(code)(None, None, message)


@functools.cache
def _library() -> Any:
    # A function of ctypes.CDLL releases the lock of the interpreter while it runs.
    library = ctypes.CDLL(str(Path(tf.sysconfig.get_lib(), shared_library("tensorflow_cc", 2))))
    library.TF_NewStatus.restype = ctypes.c_void_p
    library.TF_NewStatus.argtypes = ()
    library.TF_GetCode.argtypes = library.TF_Message.argtypes = library.TF_DeleteStatus.argtypes = (ctypes.c_void_p,)
    library.TF_Message.restype = ctypes.c_char_p
    library.TF_DeleteStatus.restype = library.TFE_EnableCollectiveOps.restype = None
    library.TFE_EnableCollectiveOps.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p)
    return library


def _pointer(capsule: object) -> int:
    """Return the address in a capsule without a name."""
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return int(prototype(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, None))


# Variables that name hosts which gRPC connects to without a proxy; the first that is set counts
# (github.com/grpc/grpc, doc/environment_variables.md).
_EXCEPTIONS = ("no_grpc_proxy", "no_proxy")


def connect_directly(cluster: ClusterConfig, environment: MutableMapping[str, str]) -> None:
    """Exempt the hosts of a cluster from the proxy variables that gRPC reads in an environment.

    gRPC sends everything to the proxy of grpc_proxy, https_proxy or http_proxy, connections to this machine too.
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
    """Let this process' server of a cluster answer this machine alone, if all of the cluster is here.

    It listens on all interfaces until this is called: TensorFlow starts it, and then waits for the others.
    """
    if cluster and cluster.is_here and (hosts := cluster.addresses.get(cluster.role)):
        keep_port_to_machine(int(hosts[cluster.index].rpartition(":")[2]))


def keep_port_to_machine(port: int) -> bool:
    """Let what listens at a port in this process answer this machine alone; return whether it does.

    A socket that listens already can still be bound to an interface, but not everywhere. Where it cannot, that is
    logged.
    """
    for listening in _listening():
        with listening:
            if listening.getsockname()[1] != port:
                continue
            try:
                bind_to_machine(listening)
            except OSError as error:
                logger.warning("port %d stays open to other machines (%s)", port, single_line(error))
                return False
    return True


def _listening() -> Iterator[socket.socket]:
    """Yield what of this process listens for connections, whichever library opened it, as sockets to be closed."""
    for number in descriptors():
        try:
            descriptor = os.dup(number)
        except OSError:
            # That of the listing itself, or one that has been closed meanwhile.
            continue
        try:
            found = socket.socket(fileno=descriptor)
        except OSError:
            os.close(descriptor)
            continue
        if found.family in _FAMILIES and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            yield found
        else:
            found.close()


@contextlib.contextmanager
def translate_peer_errors(cluster: ClusterConfig | None) -> Iterator[None]:
    """Turn TensorFlow's errors about another process into one line that names it.

    Raises:
        RetryableError: another process ended, or does not answer (TensorFlow looks every few seconds).
    """
    try:
        yield
    except _LOST as error:
        if cluster is None:
            raise
        others = [peer for peer in _PEER.findall(error.message) if peer != (cluster.role, str(cluster.index))]
        # An error that names no process is about the one that leads the cluster.
        leader = "chief 0" if "chief" in cluster.addresses else "worker 0"
        name = " ".join(others[0]) if others else leader
        raise RetryableError(f"lost {name}: {_reason(error.message)}") from None


def exit_barrier(meet: Callable[[], object], cluster: ClusterConfig) -> None:
    """Return once all processes of the training have come so far; `meet` waits until all of them call it.

    Raises:
        RetryableError: another was lost before it had come so far.
    """
    with translate_peer_errors(cluster):
        meet()
    # Whoever ends takes along what it has sent and others have yet to fetch: they would take it for lost. Now that all
    # have met, nobody needs them.
    with contextlib.suppress(RetryableError), translate_peer_errors(cluster):
        meet()


@contextlib.contextmanager
def taken_address(cluster: ClusterConfig | None) -> Iterator[None]:
    """Report which address cannot be listened on.

    Raises:
        RetryableError: something else listens on this process' port.
    """
    try:
        yield
    except (tf.errors.UnknownError, RuntimeError) as error:
        if cluster is None or "Could not start gRPC server" not in str(error):
            raise
        address = cluster.addresses[cluster.role][cluster.index]
        raise RetryableError(f"cannot listen on this worker's address; is it taken? Given: {address}") from None


def _reason(message: str) -> str:
    """Return the telling part of TensorFlow's message, in one line."""
    (line, *_) = [line for line in message.splitlines() if "aborted by" in line] or [message.splitlines()[0]]
    return line.split("aborted by: ")[-1].strip()
