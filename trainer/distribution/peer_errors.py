"""Turns TensorFlow's errors about other processes of the training into one line each."""

import contextlib
import re
from collections.abc import Callable, Iterator

import tensorflow as tf

from qcnn.errors import RetryableError
from qcnn.trainer.distribution.roles import Cluster

_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.DeadlineExceededError)
_PEER = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")


@contextlib.contextmanager
def lost_peers(cluster: Cluster | None) -> Iterator[None]:
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


def leave_together(meet: Callable[[], object], cluster: Cluster) -> None:
    """Return once all processes of the training have come so far; `meet` waits until all of them call it.

    Raises:
        RetryableError: another was lost before it had come so far.
    """
    with lost_peers(cluster):
        meet()
    # Whoever ends takes along what it has sent and others have yet to fetch: they would take it for lost. Now that all
    # have met, nobody needs them.
    with contextlib.suppress(RetryableError), lost_peers(cluster):
        meet()


@contextlib.contextmanager
def taken_address(cluster: Cluster | None) -> Iterator[None]:
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
