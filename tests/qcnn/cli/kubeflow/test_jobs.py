"""Tests of qcnn status, logs and delete of KFP runs, with and without the cluster of the runs."""

import json

import pytest

from tests.kfp_backend import FakeBackend
from tests.qcnn.cli.conftest import Typed
from tests.qcnn.jobs.apiserver import NAMESPACE, ApiServer
from tests.workflow_objects import ENDED, FAILED_STEP, STARTED, Object, RunObjects, failed, pod_status, pulling


def _submitted(backend: FakeBackend, typed: Typed, name: str, *flags: str) -> str:
    where = ("--host", backend.host, "--run-name", name, "--image", "qcnn:1", *flags)
    code, out, err = typed("submit", "--target", "kubeflow", *where, "--format", "json")
    assert code == 0, err
    return str(json.loads(out)["job"])


def test_status_lists_runs_of_all_experiments(backend: FakeBackend, typed: Typed) -> None:
    where = ("--target", "kubeflow", "--host", backend.host)
    assert typed("status", *where) == (0, "", f"no run of qcnn in {backend.host}\n")
    first, second = _submitted(backend, typed, "first"), _submitted(backend, typed, "second", "--experiment", "papers")
    # A run of another user.
    other = dict(
        backend.objects["runs"][first],
        run_id="other",
        display_name="other",
        pipeline_spec={"pipelineInfo": {"name": "other"}},
    )
    backend.objects["runs"]["other"] = other
    rows = [line.split() for line in typed("status", *where)[1].splitlines()[2:]]
    assert sorted(row[:3] for row in rows) == sorted([[first, "first", "pending"], [second, "second", "pending"]])
    code, out, _ = typed("status", *where, "--experiment", "papers", "--format", "json")
    (listed,) = json.loads(out)
    assert (code, listed["job"], listed["experiment"]) == (0, second, "papers")
    assert typed("status", *where, "--experiment", "none")[2].startswith("error: experiment: the backend at ")
    assert f"/#/runs/details/{first}" in typed("status", *where, "first")[1]


def test_delete_of_active_run_is_an_error(backend: FakeBackend, typed: Typed) -> None:
    where = ("--target", "kubeflow", "--host", backend.host)
    run = _submitted(backend, typed, "first")
    message = f"error: delete: the run must have ended; use qcnn terminate. Given: {run}\n"
    assert typed("delete", *where, "first", "--yes") == (2, "", message)
    backend.objects["runs"][run]["state"] = "SUCCEEDED"
    code, out, _ = typed("delete", *where, "--experiment", "qcnn", "--dry-run", "--format", "json")
    assert (code, [row["job"] for row in json.loads(out)]) == (0, [run])
    assert list(backend.objects["runs"]) == [run]
    assert typed("delete", *where, "first", "--yes")[0] == 0
    assert not backend.objects["runs"]


@pytest.fixture
def run(backend: FakeBackend, typed: Typed) -> str:
    """ID of a submitted run whose pods are in the namespace of the API server."""
    return _submitted(backend, typed, "first", "--namespace", NAMESPACE)


def _put(server: ApiServer, run: RunObjects) -> None:
    server.put("workflows", run.workflow)
    for pod in run.pods:
        server.put("pods", pod)


def _task(name: str, state: str, end: str = "1970-01-01T00:00:00Z") -> Object:
    """Return a task as the API returns it: without a reason, and with the epoch as the end of an active task."""
    return {"display_name": name, "state": state, "start_time": STARTED, "end_time": end}


def _parts(typed: Typed, backend: FakeBackend) -> list[Object]:
    code, out, err = typed("status", "--target", "kubeflow", "--host", backend.host, "first", "--format", "json")
    assert (code, err) == (0, "")
    return list(json.loads(out)["parts"])


def test_status_shows_reason_exit_code_and_duration(
    backend: FakeBackend, typed: Typed, run: str, api_server: ApiServer
) -> None:
    objects = RunObjects(run)
    name = objects.step("generate-data", "Failed", failed(), "main: Error (exit code 1)")
    _put(api_server, objects)
    api_server.logs[name] = FAILED_STEP
    (part,) = _parts(typed, backend)
    reason = "qubits: must be at least 4 with hybrid (given: 3)"
    assert part == {
        **{"name": "generate-data", "state": "failed", "reason": reason, "resource": name},
        **{"exit_code": 2, "duration": 90.0},
    }
    # Without permission to read pods and their logs.
    api_server.rejected.add(("get", "pods"))
    (part,) = _parts(typed, backend)
    assert (part["reason"], part["exit_code"]) == ("main: Error (exit code 1)", 1)


@pytest.mark.parametrize("is_rejected", [False, True])
def test_status_without_workflow_shows_states_and_durations(
    backend: FakeBackend, typed: Typed, run: str, api_server: ApiServer, is_rejected: bool
) -> None:
    if is_rejected:
        api_server.rejected.add(("get", "workflows"))
    tasks = [_task("generate-data", "FAILED", ENDED), _task("train", "RUNNING")]
    backend.objects["runs"][run]["run_details"] = {"task_details": tasks}
    found = [(part["name"], part["state"], part["duration"], part["reason"]) for part in _parts(typed, backend)]
    assert found == [("generate-data", "failed", 90.0, ""), ("train", "running", None, "")]


def test_status_shows_message_of_workflow_without_steps(
    backend: FakeBackend, typed: Typed, run: str, api_server: ApiServer
) -> None:
    objects = RunObjects(run)
    objects.status.update(phase="Error", nodes={}, message="invalid spec: templates.root is missing")
    _put(api_server, objects)
    out = typed("status", "--target", "kubeflow", "--host", backend.host, "first")[1]
    assert "\ninvalid spec: templates.root is missing\n" in out


def test_wait_reports_image_that_cannot_be_pulled(backend: FakeBackend, typed: Typed, api_server: ApiServer) -> None:
    # The first request is for the pipeline of the run.
    stories = iter(
        [
            *[("RUNNING", pulling("not found"), "Pending")] * 2,
            ("RUNNING", pulling("Back-off"), "Pending"),
            ("RUNNING", pod_status("Running", {"running": {}}), "Running"),
            ("FAILED", failed(), "Failed"),
        ]
    )

    def advance(run: Object) -> None:
        if run.get("state") == "FAILED":
            return
        run["state"], pod, phase = next(stories)
        objects = RunObjects(run["run_id"])
        name = objects.step("train", phase, pod, "main: Error (exit code 1)" if phase == "Failed" else "")
        _put(api_server, objects)
        api_server.logs[name] = FAILED_STEP
        # The pipelines API shows the task as running while its pod is pending.
        run["run_details"] = {"task_details": [_task("train", "FAILED" if phase == "Failed" else "RUNNING")]}

    backend.on_get = advance  # type: ignore[method-assign]
    where = ("--host", backend.host, "--namespace", NAMESPACE, "--image", "qcnn:1")
    code, out, err = typed("submit", "--target", "kubeflow", *where, "--wait")
    reason = "qubits: must be at least 4 with hybrid (given: 3)"
    assert (code, [line for line in out.splitlines() if line.startswith(("train:", "run:"))]) == (
        1,
        [
            *("train: pending (cannot start, ImagePullBackOff: not found)", "run: running"),
            *("train: running", f"train: failed ({reason})", "run: failed"),
        ],
    )
    (identity,) = backend.objects["runs"]
    assert err.splitlines()[-1] == f"error: run: step train failed ({reason}). Given: {identity}"


def test_logs_have_lines_of_steps_and_with_flag_all_lines(
    backend: FakeBackend, typed: Typed, run: str, api_server: ApiServer
) -> None:
    objects = RunObjects(run)
    driver = objects.step("generate-data-driver", "Succeeded", pod_status("Succeeded", {"running": {}}), is_driver=True)
    name = objects.step("generate-data", "Failed", failed(), started="2026-11-21T09:00:09Z")
    # A pod whose containers have not started has no log.
    objects.step("train", "Pending", pulling())
    _put(api_server, objects)
    api_server.logs |= {
        driver: ["I1121 09:00:00.000000       1 main.go:119] Setting log level to: '1'"],
        f"{name}/main": FAILED_STEP,
        f"{name}/wait": ["waiting"],
    }
    logs = ("logs", "--target", "kubeflow", "--host", backend.host, "first")
    code, out, _ = typed(*logs)
    assert (code, out.splitlines()) == (
        0,
        [
            "[generate-data] reading the experiment",
            "[generate-data] error: qubits: must be at least 4 with hybrid. Given: 3",
        ],
    )
    lines = typed(*logs, "--all-containers")[1].splitlines()
    assert [line for line in lines if line.startswith("[generate-data] ")] == [
        f"[generate-data] {line}" for line in FAILED_STEP
    ]
    assert "[generate-data/wait] waiting" in lines
    assert any(line.startswith("[generate-data-driver] I1121") for line in lines)
    backend.objects["runs"][run]["state"] = "FAILED"
    code, out, err = typed(*logs, "--all-containers", "--follow")
    assert (code, out.splitlines()) == (1, lines)
    assert err.startswith("error: run: step generate-data failed (qubits: must be at least 4")


def test_logs_of_other_targets_have_no_containers_flag(typed: Typed) -> None:
    assert "--all-containers" in typed("logs", "--target", "kubeflow", "--help")[1]
    assert "--all-containers" not in typed("logs", "--target", "tfjob", "--help")[1]
