"""What TensorFlow reports of other processes becomes one line that names one of them."""

import pytest
import tensorflow as tf

from qcnn.errors import RetryableError
from qcnn.trainer.distribution.peer_errors import leave_together, lost_peers, taken_address
from qcnn.trainer.distribution.roles import Cluster

CLUSTER = Cluster({"worker": ("127.0.0.1:2222", "127.0.0.1:2223", "127.0.0.1:2224")}, "worker", 1)
WITH_CHIEF = Cluster({"chief": ("127.0.0.1:2222",), "worker": ("127.0.0.1:2223",)}, "worker", 0)


@pytest.mark.parametrize(
    ("cluster", "message", "line"),
    [
        (
            CLUSTER,
            "Collective ops is aborted by: failed to connect to all addresses\nfrom remote task "
            "/job:worker/replica:0/task:2",
            "lost worker 2: failed to connect to all addresses",
        ),
        # Its own name tells nothing; without another the process that leads is lost.
        (CLUSTER, "/job:worker/replica:0/task:1: heartbeat", "lost worker 0: /job:worker/replica:0/task:1: heartbeat"),
        (WITH_CHIEF, "no answer\nand more", "lost chief 0: no answer"),
    ],
)
def test_a_lost_process_is_named(cluster: Cluster, message: str, line: str) -> None:
    with pytest.raises(RetryableError) as error, lost_peers(cluster):
        raise tf.errors.UnavailableError(None, None, message)
    assert str(error.value) == line


def test_who_ends_before_all_have_met_is_lost_and_who_ends_after_that_is_not() -> None:
    def meet() -> None:
        if not ended.pop(0):
            raise tf.errors.UnavailableError(None, None, "/job:worker/replica:0/task:2: Socket closed")

    ended = [False]
    with pytest.raises(RetryableError, match=r"^lost worker 2: .*Socket closed$"):
        leave_together(meet, CLUSTER)
    ended = [True, False]
    leave_together(meet, CLUSTER)
    assert not ended


def test_a_process_that_trains_alone_has_lost_nobody() -> None:
    with pytest.raises(tf.errors.UnavailableError), lost_peers(None):
        raise tf.errors.UnavailableError(None, None, "of its own")


def test_an_address_that_is_taken_is_named() -> None:
    with pytest.raises(RetryableError, match=r"is it taken\? Given: 127\.0\.0\.1:2223$"), taken_address(CLUSTER):
        raise tf.errors.UnknownError(None, None, "Could not start gRPC server")
    with pytest.raises(RuntimeError, match=r"^something else$"), taken_address(CLUSTER):
        raise RuntimeError("something else")
