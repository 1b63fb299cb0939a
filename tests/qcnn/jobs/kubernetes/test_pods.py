"""What pods say, in the words of the API server and the kubelet (all seen on a real cluster)."""

import dataclasses
from typing import Any

import pytest

from qcnn.jobs.kubernetes import pods
from qcnn.jobs.kubernetes.kinds import JOB
from qcnn.jobs.kubernetes.pods import Process, most_to_blame
from qcnn.jobs.tfjob.manifest import TFJOB
from tests.qcnn.jobs.kubernetes.processes import process


def read(pod: dict[str, Any]) -> Process:
    return pods.read(pod, TFJOB)


def _pod(index: int = 0, state: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": str(index)}
    others = [{"name": "sidecar", "state": {"running": {}}}]
    containers = [*others, {"name": "tensorflow", "state": state}] if state else others
    return {
        "metadata": {"name": f"job-worker-{index}", "uid": f"uid-{index}", "labels": labels},
        "status": {"containerStatuses": containers, **status},
    }


def _ended(code: int, index: int = 0, reason: str = "Error") -> dict[str, Any]:
    return _pod(index, {"terminated": {"exitCode": code, "reason": reason}})


def test_a_process_is_called_by_the_labels_of_its_kind() -> None:
    assert read(_pod(1)).name == "worker 1"
    metadata = {"name": "a", "uid": "b", "labels": {"app.kubernetes.io/component": "predict"}}
    assert pods.read({"metadata": metadata}, JOB).name == "predict 0"


def test_a_process_has_started_once_its_own_container_runs_or_ran() -> None:
    assert not read(_pod()).started
    assert not read(_pod(state={"waiting": {"reason": "ContainerCreating"}})).started
    assert read(_pod(state={"running": {}})).started
    assert read(_ended(0)).started
    assert not read({**_pod(), "status": {}}).started


@pytest.mark.parametrize(
    ("pod", "trouble"),
    [
        (_pod(state={"waiting": {"reason": "ContainerCreating"}}), None),
        (_pod(state={"running": {}}), None),
        (
            _pod(state={"waiting": {"reason": "ImagePullBackOff", "message": "Back-off\npulling image"}}),
            "cannot start, ImagePullBackOff: Back-off pulling image",
        ),
        (
            _pod(conditions=[{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]),
            "cannot be scheduled: 0/1 nodes are available",
        ),
        (_pod(conditions=[{"type": "PodScheduled", "status": "True"}]), None),
    ],
)
def test_why_a_process_does_not_start_is_one_line(pod: dict[str, Any], trouble: str | None) -> None:
    assert read(pod).trouble == trouble


def test_whose_fault_an_end_is_follows_from_the_exit_code() -> None:
    ends = [(code, read(_ended(code)).own_fault, read(_ended(code)).lost) for code in (0, 1, 127, 128, 143)]
    assert ends == [
        (0, False, False),
        (1, True, False),
        (127, True, False),
        (128, False, True),
        (143, False, True),
    ]
    told = _ended(143)
    told["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert not read(told).lost
    assert read(_ended(137, reason="OOMKilled")).out_of_memory
    assert not read(_ended(137)).out_of_memory


def test_the_one_to_blame_failed_by_itself_rather_than_by_a_signal_or_by_a_lost_peer() -> None:
    well, lost_peer, killed, own = (read(_ended(code, index)) for index, code in enumerate((0, 138, 137, 1)))
    assert most_to_blame([well, lost_peer, killed, own]) == own
    assert most_to_blame([well, lost_peer, killed]) == killed
    assert most_to_blame([well, lost_peer]) == lost_peer
    assert most_to_blame([well]) is None


FAILED_JOB: dict[str, Any] = {"metadata": {"name": "a", "creationTimestamp": "2026-01-31T12:00:00Z"}}


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
    assert pods.restarts(FAILED_JOB, [], []) == 0
    assert pods.restarts(FAILED_JOB, found, []) == 1
    assert pods.restarts(FAILED_JOB, found, [dataclasses.replace(process("0e"), pod=first, uid="e")]) == 2


def test_workers_that_begin_again_together_are_one_restart() -> None:
    names = ["a-worker-0", "a-worker-1"]
    assert pods.restarts(FAILED_JOB, [_scheduled(name, name + life) for name in names for life in "ab"], []) == 1


def test_a_suspension_is_no_restart() -> None:
    resumed = {"type": "Suspended", "status": "False", "lastTransitionTime": "2026-01-31T12:30:00Z"}
    job = {**FAILED_JOB, "status": {"conditions": [{"type": "Created", "status": "True"}, resumed]}}
    name = "a-worker-0"
    before, after, again = (
        _scheduled(name, uid, f"2026-01-31T12:{minute}:00Z") for uid, minute in (("a", "10"), ("b", "30"), ("c", "40"))
    )
    assert pods.restarts(job, [before, after], []) == 0
    assert pods.restarts(job, [before, after, again], []) == 1
    assert pods.restarts(job, [before], []) == 0


def test_the_last_warning_of_a_kind_is_one_line() -> None:
    def warning(reason: str, second: int) -> dict[str, Any]:
        return {"reason": reason, "message": f"no\nroom {second}", "lastTimestamp": f"2026-01-31T12:00:0{second}Z"}

    warnings = [warning("FailedCreatePod", 2), warning("FailedCreatePod", 1), warning("Error", 3)]
    assert pods.last_warning(warnings, "FailedCreate") == "cannot start, FailedCreatePod: no room 2"
    assert pods.last_warning(warnings) == "cannot start, Error: no room 3"
    assert pods.last_warning([]) is None


def test_of_warnings_the_one_that_says_why_is_shown() -> None:
    # As the kubelet writes them where an image is not there, all within a second or two.
    messages = ('Failed to pull image "a/b:1": not found', "Error: ErrImagePull", "Error: ImagePullBackOff")
    warnings = [
        {"reason": "Failed", "message": message, "lastTimestamp": f"2026-01-31T12:00:0{second}Z"}
        for second, message in enumerate(messages)
    ]
    assert pods.last_warning(warnings) == 'cannot start, Failed: Failed to pull image "a/b:1": not found'


def test_warning_that_names_another_pod_is_left_out() -> None:
    def warning(message: str, second: int) -> dict[str, Any]:
        return {"reason": "FailedCreatePod", "message": message, "lastTimestamp": f"2026-01-31T12:00:0{second}Z"}

    quota = 'Error creating: pods "a-worker-0" is forbidden: exceeded quota: few, requested: pods=1'
    assert pods.last_warning([warning(quota, 2)], "FailedCreate", "a-worker-1") is None
    assert pods.last_warning([warning(quota, 2)], "FailedCreate", "a-worker-0") == (
        f"cannot start, FailedCreatePod: {quota}"
    )
    general = warning("the server is busy", 1)
    said = "cannot start, FailedCreatePod: the server is busy"
    assert pods.last_warning([general, warning(quota, 2)], "FailedCreate", "a-worker-1") == said
    # A name that begins alike is another one.
    assert pods.last_warning([warning(quota.replace("worker-0", "worker-10"), 2)], pod="a-worker-1") is None
