"""Steps of a run, from its Workflow and pods."""

from typing import Any

import pytest

from qcnn.targets.base import PartStatus
from qcnn.targets.kubeflow.workflow import Evidence, message_of, steps_of
from tests.workflow_objects import FAILED_STEP, Object, RunObjects, failed, pod_status, pulling

STEPS = ("generate-data", "train", "evaluate")
QUOTA = (
    'pods "qcnn-x7k2p-retry-system-container-impl-1" is forbidden: exceeded quota: compute, requested: '
    "limits.cpu=4,limits.memory=8Gi,requests.cpu=4,requests.memory=8Gi, used: limits.cpu=2,limits.memory=4Gi,"
    "requests.cpu=2,requests.memory=4Gi, limited: limits.cpu=4,limits.memory=8Gi,requests.cpu=4,requests.memory=8Gi"
)
ACCOUNT = 'pods "a" is forbidden: error looking up service account kubeflow/absent: serviceaccount "absent" not found'
STARTING = pod_status("Pending", {"waiting": {"reason": "PodInitializing"}})


def _steps(run: RunObjects, lines: list[str] | None = None, warning: str | None = None) -> list[PartStatus]:
    return steps_of(run.workflow, run.pods, STEPS, Evidence(lambda pod: warning, lambda pod: lines or []))


@pytest.mark.parametrize(
    ("phase", "pod", "message", "expected"),
    [
        ("Running", pod_status("Running", {"running": {}}), "", {"state": "running"}),
        (
            "Succeeded",
            pod_status("Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed"}}),
            "",
            {"state": "succeeded", "exit_code": 0, "duration": 90.0},
        ),
        ("Pending", STARTING, "PodInitializing", {"state": "pending"}),
        (
            "Pending",
            pulling(),
            'ImagePullBackOff: Back-off pulling image "none:1": ErrImagePull: not found',
            {
                "state": "pending",
                "reason": 'cannot start, ImagePullBackOff: Back-off pulling image "none:1": ErrImagePull: not found',
            },
        ),
        (
            "Pending",
            pod_status("Pending", {"waiting": {"reason": "CreateContainerConfigError", "message": "no secret"}}),
            "CreateContainerConfigError: no secret",
            {"state": "pending", "reason": "cannot start, CreateContainerConfigError: no secret"},
        ),
        (
            "Pending",
            {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
                ],
            },
            "Unschedulable: 0/1 nodes",
            {"state": "pending", "reason": "cannot be scheduled: 0/1 nodes"},
        ),
        (
            "Failed",
            failed(1),
            "main: Error (exit code 1)",
            {"state": "failed", "reason": "main: Error (exit code 1)", "exit_code": 1, "duration": 90.0},
        ),
        (
            "Failed",
            failed(137, "OOMKilled"),
            "main: OOMKilled (exit code 137)",
            {"state": "failed", "reason": "used more memory than its limit", "exit_code": 137, "duration": 90.0},
        ),
    ],
)
def test_step_state_is_that_of_its_pod(phase: str, pod: Object, message: str, expected: dict[str, Any]) -> None:
    run = RunObjects("1")
    name = run.step("train", phase, pod, message)
    assert _steps(run) == [PartStatus("train", **expected, resource=name)]


@pytest.mark.parametrize(
    ("phase", "message", "expected"),
    [
        # Argo tries again until the quota allows the pod.
        ("Pending", QUOTA, {"state": "pending", "reason": f"cannot start: {QUOTA}"}),
        ("Error", ACCOUNT, {"state": "failed", "reason": ACCOUNT, "duration": 90.0}),
        ("Error", "pod deleted", {"state": "failed", "reason": "pod deleted", "duration": 90.0}),
    ],
)
def test_step_without_pod_has_reason_of_workflow(phase: str, message: str, expected: dict[str, Any]) -> None:
    run = RunObjects("1")
    run.step("train", phase, None, message)
    assert _steps(run) == [PartStatus("train", **expected)]


def test_failed_step_has_its_error_and_exit_code() -> None:
    run = RunObjects("1")
    run.step("generate-data", "Failed", failed(1), "main: Error (exit code 1)")
    run.omit("train-driver")
    run.omit("train")
    (part,) = _steps(run, FAILED_STEP)
    assert (part.state, part.exit_code, part.duration) == ("failed", 2, 90.0)
    assert part.reason == "qubits: must be at least 4 with hybrid (given: 3)"


def test_pending_step_without_reason_has_that_of_events() -> None:
    run = RunObjects("1")
    run.step("train", "Pending", STARTING, "PodInitializing")
    (part,) = _steps(run, warning="cannot start, FailedMount: no volume")
    assert (part.state, part.reason) == ("pending", "cannot start, FailedMount: no volume")


def test_driver_is_listed_if_it_failed_or_cannot_start() -> None:
    run = RunObjects("1")
    running = pod_status("Running", {"running": {}})
    run.step("generate-data-driver", "Running", running, is_driver=True)
    assert _steps(run) == []
    run.step("train-driver", "Pending", pulling(), is_driver=True)
    run.step("evaluate-driver", "Error", None, ACCOUNT, is_driver=True)
    assert [(part.name, part.state) for part in _steps(run)] == [
        *(("evaluate-driver", "failed"), ("train-driver", "pending")),
    ]


def test_restarted_step_has_state_of_last_attempt() -> None:
    run = RunObjects("1")
    run.step("train", "Error", None, "pod deleted")
    run.step("train", "Pending", pulling(), attempt=1, started="2026-11-21T09:00:40Z")
    (part,) = _steps(run)
    assert (part.state, part.reason[:30]) == ("pending", "cannot start, ImagePullBackOff")


def test_steps_of_loop_are_separate() -> None:
    run = RunObjects("1")
    for number, phase in enumerate(("Succeeded", "Running")):
        loop = f".for-loop-1(0).iteration-item({number}:{number})(0)"
        state = {"terminated": {"exitCode": 0}} if phase == "Succeeded" else {"running": {}}
        run.step("train", phase, pod_status(phase, state), in_loop=loop, started=f"2026-11-21T09:00:0{number}Z")
    assert [(part.name, part.state) for part in _steps(run)] == [("train", "succeeded"), ("train", "running")]


def test_workflow_without_nodes_has_message() -> None:
    status = {"phase": "Error", "message": "invalid spec: templates.root\nis missing"}
    assert steps_of({"status": status}, [], STEPS, Evidence(lambda pod: None, lambda pod: [])) == []
    assert message_of({"status": status}) == "invalid spec: templates.root is missing"
    assert message_of({}) == ""
