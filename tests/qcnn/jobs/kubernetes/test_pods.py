"""What pods say, in the words of the API server and the kubelet (all seen on a real cluster)."""

from typing import Any

import pytest

from qcnn.jobs.kubernetes import pods
from qcnn.jobs.kubernetes.kinds import JOB
from qcnn.jobs.kubernetes.pods import Process, most_to_blame
from qcnn.jobs.tfjob.kind import TFJOB


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
