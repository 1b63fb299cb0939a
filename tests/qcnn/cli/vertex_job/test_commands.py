"""Tests of the commands for custom jobs, which the local Vertex AI runs as processes."""

import json

from google.cloud import aiplatform_v1 as v1

from qcnn.jobs.job import run_label
from qcnn.jobs.vertex.custom_job import JOB_LABEL, RUN_LABEL, RUN_VARIABLE, TASK_LABEL
from tests.qcnn.cli.conftest import Typed
from tests.vertex.clients import jobs, python_pool
from tests.vertex.fake_service.job_run import FAILED, RUNNING, SUCCEEDED
from tests.vertex.fake_service.vertex import Vertex

_FOREVER = "import time\nprint('started', flush=True)\nwhile True: time.sleep(60)"
_TARGET = ("--target", "vertex-job")


def _create_job(server: Vertex, program: str, run: str = "mine", task: str = "job", count: int = 1) -> str:
    """Create a job with the labels of a launcher and return its resource name."""
    pools = [python_pool(program), *([python_pool(program, count - 1)] if count > 1 else [])]
    for pool in pools:
        pool.container_spec.env = [v1.EnvVar(name=RUN_VARIABLE, value=run)]
    name = f"{run}-{task}-0-12345678"
    labels = {JOB_LABEL: name, RUN_LABEL: run_label(run), TASK_LABEL: task}
    job = v1.CustomJob(display_name=name, labels=labels, job_spec={"worker_pool_specs": pools})
    return str(jobs(server).create_custom_job(parent=server.parent, custom_job=job).name)


def _id(name: str) -> str:
    return name.rpartition("/")[2]


def test_status_lists_jobs_with_states_and_reasons(vertex: Vertex, on_vertex: Typed) -> None:
    assert on_vertex("status", *_TARGET) == (0, "", "no custom job of qcnn in qcnn-tests in us-central1\n")
    good, bad = _create_job(vertex, "print(1)", "good"), _create_job(vertex, "raise SystemExit(3)", "bad")
    for name in (good, bad):
        vertex.until_state(name, SUCCEEDED, FAILED)
    code, out, err = on_vertex("status", *_TARGET)
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()[2:]]
    assert [row[:4] for row in rows] == [[_id(good), "good", "succeeded", "1"], [_id(bad), "bad", "failed", "1"]]
    code, out, _ = on_vertex("status", "bad-job-0-12345678", *_TARGET, "--format", "json")
    described = json.loads(out)
    assert (described["job"], described["state"]) == (_id(bad), "failed")
    assert "non-zero status of 3" in described["message"]
    code, out, err = on_vertex("status", "none", *_TARGET)
    assert (code, out) == (2, "")
    assert err == "error: custom job: qcnn created none of this ID or name in qcnn-tests in us-central1. Given: none\n"


def test_jobs_without_creation_time_are_first_without_age(vertex: Vertex, on_vertex: Typed) -> None:
    dated, undated = _create_job(vertex, "print(1)", "dated"), _create_job(vertex, "print(2)", "undated")
    for name in (dated, undated):
        vertex.until_state(name, SUCCEEDED)
    with vertex.state.changed:
        vertex.state.get(v1.CustomJob, undated).create_time = None
    code, out, err = on_vertex("status", *_TARGET, "--format", "json")
    assert (code, err) == (0, "")
    first, second = json.loads(out)
    assert (first["job"], first["age"], second["job"]) == (_id(undated), None, _id(dated))
    assert on_vertex("status", *_TARGET)[0] == 0
    assert "[chief 0] 2" in on_vertex("logs", _id(undated), *_TARGET)[1].splitlines()


def test_logs_print_lines_of_workers_with_names(vertex: Vertex, on_vertex: Typed) -> None:
    name = _create_job(vertex, "print('one'); print('two')", count=2)
    vertex.until_state(name, SUCCEEDED, FAILED)
    code, out, _ = on_vertex("logs", _id(name), *_TARGET)
    assert code == 0
    lines = out.splitlines()
    assert [line for line in lines if line.startswith("[chief 0]")] == ["[chief 0] one", "[chief 0] two"]
    failing = _create_job(vertex, "print('last words'); raise SystemExit(3)", "failing")
    code, out, err = on_vertex("logs", "-f", _id(failing), *_TARGET)
    assert code == 1
    assert "[chief 0] last words" in out.splitlines()
    assert err.startswith("error: custom job: it ended failed (")
    assert err.endswith(f"Given: {_id(failing)}\n")


def test_delete_cancels_active_job_first(vertex: Vertex, on_vertex: Typed) -> None:
    mine, other = _create_job(vertex, _FOREVER), _create_job(vertex, _FOREVER, "other")
    for name in (mine, other):
        vertex.until_line(name, "workerpool0-0", "started")
    code, out, err = on_vertex("delete", "--run", "mine", *_TARGET)
    assert code == 2
    assert err == "error: delete: must be confirmed; without a terminal, pass --yes. Given: 1 objects to delete\n"
    assert _id(mine) in out
    assert _id(other) not in out
    shown = on_vertex("delete", "--run", "mine", "--dry-run", *_TARGET)
    assert len(vertex.custom_jobs()) == 2
    code, out, err = on_vertex("delete", "--run", "mine", "--yes", "--format", "json", *_TARGET)
    assert (code, err) == (0, "deleted\n")
    (row,) = json.loads(out)
    assert shown[1].split()[-6:] == " ".join(row.values()).split()
    assert [job.name for job in vertex.custom_jobs()] == [other]
    assert vertex.custom_jobs()[0].state == RUNNING


def test_orphans_are_jobs_without_run(vertex: Vertex, on_vertex: Typed) -> None:
    orphan, alone = _create_job(vertex, _FOREVER, "gone-run", "train"), _create_job(vertex, _FOREVER, "alone")
    for name in (orphan, alone):
        vertex.until_line(name, "workerpool0-0", "started")
    code, _, err = on_vertex("delete", "--orphans", "--yes", *_TARGET)
    assert (code, err) == (0, "")
    assert [job.name for job in vertex.custom_jobs()] == [alone]
    assert on_vertex("delete", "--orphans", "--yes", *_TARGET)[1].startswith("nothing to delete")
