"""What events say, in the words of the operator and the kubelet (seen on a real cluster)."""

import dataclasses
from typing import Any

from qcnn.jobs.kubernetes import events
from tests.qcnn.jobs.kubernetes.processes import process

JOB: dict[str, Any] = {"metadata": {"name": "a", "creationTimestamp": "2026-01-31T12:00:00Z"}}


def _scheduled(name: str, uid: str, created: str = "2026-01-31T12:00:01Z") -> dict[str, Any]:
    return {"metadata": {"creationTimestamp": created}, "involvedObject": {"name": name, "uid": uid}}


def test_restarts_are_the_lives_of_processes_beyond_the_first() -> None:
    first, second = "a-worker-0", "a-worker-1"
    found = [
        _scheduled(first, "a"),
        _scheduled(first, "b"),
        _scheduled(second, "c"),
        _scheduled(second, "of a job of this name before", "2026-01-31T11:00:00Z"),
        _scheduled("another-worker-0", "d"),
    ]
    assert events.restarts(JOB, [], []) == 0
    assert events.restarts(JOB, found, []) == 1
    assert events.restarts(JOB, found, [dataclasses.replace(process("0e"), pod=first, uid="e")]) == 2


def test_workers_that_begin_again_together_are_one_restart() -> None:
    names = ["a-worker-0", "a-worker-1"]
    assert events.restarts(JOB, [_scheduled(name, name + life) for name in names for life in "ab"], []) == 1


def test_a_suspension_is_no_restart() -> None:
    resumed = {"type": "Suspended", "status": "False", "lastTransitionTime": "2026-01-31T12:30:00Z"}
    job = {**JOB, "status": {"conditions": [{"type": "Created", "status": "True"}, resumed]}}
    name = "a-worker-0"
    before, after, again = (
        _scheduled(name, uid, f"2026-01-31T12:{minute}:00Z") for uid, minute in (("a", "10"), ("b", "30"), ("c", "40"))
    )
    assert events.restarts(job, [before, after], []) == 0
    assert events.restarts(job, [before, after, again], []) == 1
    assert events.restarts(job, [before], []) == 0


def test_the_last_warning_of_a_kind_is_one_line() -> None:
    def warning(reason: str, second: int) -> dict[str, Any]:
        return {"reason": reason, "message": f"no\nroom {second}", "lastTimestamp": f"2026-01-31T12:00:0{second}Z"}

    warnings = [warning("FailedCreatePod", 2), warning("FailedCreatePod", 1), warning("Error", 3)]
    assert events.last_warning(warnings, "FailedCreate") == "cannot start, FailedCreatePod: no room 2"
    assert events.last_warning(warnings) == "cannot start, Error: no room 3"
    assert events.last_warning([]) is None


def test_of_warnings_the_one_that_says_why_is_shown() -> None:
    # As the kubelet writes them where an image is not there, all within a second or two.
    messages = ('Failed to pull image "a/b:1": not found', "Error: ErrImagePull", "Error: ImagePullBackOff")
    warnings = [
        {"reason": "Failed", "message": message, "lastTimestamp": f"2026-01-31T12:00:0{second}Z"}
        for second, message in enumerate(messages)
    ]
    assert events.last_warning(warnings) == 'cannot start, Failed: Failed to pull image "a/b:1": not found'


def test_warning_that_names_another_pod_is_left_out() -> None:
    def warning(message: str, second: int) -> dict[str, Any]:
        return {"reason": "FailedCreatePod", "message": message, "lastTimestamp": f"2026-01-31T12:00:0{second}Z"}

    quota = 'Error creating: pods "a-worker-0" is forbidden: exceeded quota: few, requested: pods=1'
    assert events.last_warning([warning(quota, 2)], "FailedCreate", "a-worker-1") is None
    assert events.last_warning([warning(quota, 2)], "FailedCreate", "a-worker-0") == (
        f"cannot start, FailedCreatePod: {quota}"
    )
    general = warning("the server is busy", 1)
    said = "cannot start, FailedCreatePod: the server is busy"
    assert events.last_warning([general, warning(quota, 2)], "FailedCreate", "a-worker-1") == said
    # A name that begins alike is another one.
    assert events.last_warning([warning(quota.replace("worker-0", "worker-10"), 2)], pod="a-worker-1") is None
