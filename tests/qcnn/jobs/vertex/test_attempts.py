"""What jobs say of themselves and of the processes that they failed for."""

import pytest

from qcnn.jobs.vertex.attempts import Ended, process_name, to_blame


@pytest.mark.parametrize(
    ("replica", "name"),
    [
        ("workerpool0-0", "chief 0"),
        ("workerpool1-12", "worker 12"),
        ("workerpool2-1", "ps 1"),
        ("workerpool3-0", "evaluator 0"),
        ("service", "service"),
        ("workerpool7-0", "workerpool7-0"),
    ],
)
def test_replicas_have_the_names_of_their_roles(replica: str, name: str) -> None:
    assert process_name(replica) == name


@pytest.mark.parametrize(
    ("message", "ended"),
    [
        (
            "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: Error. To find out more",
            Ended("chief 0", 1, out_of_memory=False),
        ),
        (
            "The replica workerpool1-2 ran out of memory and exited with a non-zero status of 137.",
            Ended("worker 2", 137, out_of_memory=True),
        ),
        (
            "The replica workerpool1-0 ran out-of-memory and exited with a non-zero status of 9(SIGKILL). ",
            Ended("worker 0", 137, out_of_memory=True),
        ),
        (
            "The replica workerpool1-0 exited with a non-zero status of 15(SIGTERM).",
            Ended("worker 0", 143, out_of_memory=False),
        ),
        (
            "The replica workerpool0-0 exited with a non-zero status of 138. "
            "The replica workerpool1-0 exited with a non-zero status of 2.",
            Ended("worker 0", 2, out_of_memory=False),
        ),
        ("Internal error occurred for the current attempt.", None),
        ("", None),
    ],
)
def test_the_process_to_blame_is_read_from_the_error(message: str, ended: Ended | None) -> None:
    assert to_blame(message) == ended
