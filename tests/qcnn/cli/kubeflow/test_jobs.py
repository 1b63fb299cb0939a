"""Tests of qcnn status and delete of KFP runs; tests/kfp tests their logs."""

import json

from tests.kfp_backend import FakeBackend
from tests.qcnn.cli.conftest import Typed


def _submitted(backend: FakeBackend, typed: Typed, name: str, experiment: str = "qcnn") -> str:
    where = ("--host", backend.host, "--run-name", name, "--experiment", experiment, "--image", "qcnn:1")
    code, out, err = typed("submit", "--target", "kubeflow", *where, "--format", "json")
    assert code == 0, err
    return str(json.loads(out)["job"])


def test_status_lists_runs_of_all_experiments(backend: FakeBackend, typed: Typed) -> None:
    where = ("--target", "kubeflow", "--host", backend.host)
    assert typed("status", *where) == (0, "", f"no run of qcnn in {backend.host}\n")
    first, second = _submitted(backend, typed, "first"), _submitted(backend, typed, "second", "papers")
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
