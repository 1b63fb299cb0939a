"""Launcher processes on a local Vertex AI server: a training job has at most one active Vertex AI job."""

import re
from pathlib import Path

import pytest
from google.cloud import aiplatform_v1 as v1

from tests.qcnn.jobs.vertex.launchers import launched
from tests.vertex.clients import jobs
from tests.vertex.fake_service.job_run import CANCELLED, CANCELLING, FAILED, RUNNING, SUCCEEDED
from tests.vertex.fake_service.vertex import Vertex

pytestmark = pytest.mark.usefixtures("forks")

_FOREVER = "import time\nprint('started', flush=True)\nwhile True: time.sleep(60)"
_HELLO = "print('hello')"
_FAILS = "import sys\nprint('before')\nsys.exit('bad: it is wrong')"


def _until(sign: Path) -> str:
    """Return a program that succeeds as soon as a file exists."""
    wait = f"while not os.path.exists({str(sign)!r}): time.sleep(0.05)"
    return f"import os, time\nprint('started', flush=True)\n{wait}"


def _states(server: Vertex) -> list[v1.JobState]:
    return [job.state for job in server.custom_jobs()]


def test_launch_prints_each_log_line_once_with_process_name(vertex: Vertex) -> None:
    program = (
        "import json, os\nprint(json.loads(os.environ['CLUSTER_SPEC'])['task'])\nfor i in range(3): print('line', i)"
    )
    with launched(vertex, program) as launcher:
        assert launcher.end() == 0, launcher.lines
    assert [line for line in launcher.lines if line.startswith("[chief 0]")] == [
        "[chief 0] {'type': 'workerpool0', 'index': 0}",
        *(f"[chief 0] line {i}" for i in range(3)),
    ]
    (job,) = vertex.custom_jobs()
    job_id = job.name.rpartition("/")[2]
    created = f"custom job {job_id} is created: https://console.cloud.google.com/agent-platform/locations/us-central1/"
    assert launcher.lines[0] == f"{created}training/{job_id}?project=qcnn-tests"
    assert f"custom job {job_id} has ended: SUCCEEDED" in launcher.lines


@pytest.mark.long
def test_launch_succeeded_job_is_not_repeated(vertex: Vertex) -> None:
    for outcome in ("is created", "has already succeeded"):
        with launched(vertex, _HELLO) as launcher:
            assert launcher.end() == 0, launcher.lines
        assert outcome in launcher.lines[0]
    assert _states(vertex) == [SUCCEEDED]


@pytest.mark.long
def test_launch_adopts_job_of_killed_launcher(vertex: Vertex) -> None:
    sign = vertex.folder / "sign"
    with launched(vertex, _until(sign)) as first:
        first.until_line("[chief 0] started")
        first.kill()
    with launched(vertex, _until(sign)) as second:
        second.until_line("is adopted")
        second.until_line("[chief 0] started")
        sign.touch()
        assert second.end() == 0, second.lines
    assert _states(vertex) == [SUCCEEDED]


@pytest.mark.long
def test_launch_two_launchers_end_with_one_job(vertex: Vertex) -> None:
    sign = vertex.folder / "sign"
    with launched(vertex, _until(sign)) as first, launched(vertex, _until(sign)) as second:
        first.until_line("is running")
        second.until_line("is running")
        sign.touch()
        assert first.end() == second.end() == 0, (first.lines, second.lines)
    states = _states(vertex)
    assert states.count(SUCCEEDED) == 1
    assert set(states) <= {SUCCEEDED, CANCELLED}


@pytest.mark.long
def test_launch_keeps_older_job_of_other_launcher(vertex: Vertex) -> None:
    """Two launchers have listed the jobs before either of them created one."""
    sign = vertex.folder / "sign"
    with launched(vertex, _until(sign)) as launcher:
        launcher.until_line("is running")
        (own,) = vertex.custom_jobs()
        other = v1.CustomJob(display_name="other", job_spec=own.job_spec, labels=own.labels)
        older = jobs(vertex).create_custom_job(parent=vertex.parent, custom_job=other)
        with vertex.state.changed:
            vertex.state.get(v1.CustomJob, older.name).create_time = own.create_time.replace(year=2020)
        launcher.until_line("is a duplicate; cancelling it")
        launcher.until_line("is adopted")
        sign.touch()
        assert launcher.end() == 0, launcher.lines
    assert {job.name: job.state for job in vertex.custom_jobs()} == {own.name: CANCELLED, older.name: SUCCEEDED}


def test_launch_response_lost_adopts_created_job(vertex: Vertex) -> None:
    sign = vertex.folder / "sign"
    vertex.fail("JobService/CreateCustomJob", 503, answered=False)
    with launched(vertex, _until(sign)) as launcher:
        launcher.until_line("checking whether the job was created")
        launcher.until_line("is adopted")
        sign.touch()
        assert launcher.end() == 0, launcher.lines
    assert _states(vertex) == [SUCCEEDED]


@pytest.mark.long
def test_launch_failed_creation_is_retried(vertex: Vertex) -> None:
    vertex.fail("JobService/CreateCustomJob", 503)
    with launched(vertex, _HELLO) as launcher:
        assert launcher.end() == 0, launcher.lines
    assert _states(vertex) == [SUCCEEDED]


@pytest.mark.long
@pytest.mark.parametrize("moment", ["before", "after"])
def test_launch_killed_around_creation_leaves_at_most_one_job(vertex: Vertex, moment: str) -> None:
    sign = vertex.folder / "sign"
    # "before": the request fails. "after": the job is created, and the response is lost.
    vertex.fail("JobService/CreateCustomJob", 503, times=1, answered=moment == "before")
    with launched(vertex, _until(sign)) as first:
        first.until_line("checking whether the job was created")
        first.kill()
    with launched(vertex, _until(sign)) as second:
        second.until_line("is running")
        sign.touch()
        assert second.end() == 0, second.lines
    assert _states(vertex) == [SUCCEEDED]


def test_launch_sigterm_cancels_job(vertex: Vertex) -> None:
    with launched(vertex, _FOREVER) as launcher:
        launcher.until_line("[chief 0] started")
        launcher.terminate()
        assert launcher.end() == 128 + 15
    assert re.fullmatch(r"ended by SIGTERM; its custom job is cancelled\. Given: run-1-train-.*", launcher.lines[-1])
    (job,) = vertex.custom_jobs()
    vertex.until_state(job.name, CANCELLED)


@pytest.mark.long
def test_launch_permanent_error_logs_last_lines_without_retry(vertex: Vertex) -> None:
    with launched(vertex, _FAILS, restarts=3) as launcher:
        assert launcher.end() == 2
    (job,) = vertex.custom_jobs()
    assert job.state == FAILED
    assert launcher.lines[-4:-1] == ["last lines of chief 0:", "    before", "    bad: it is wrong"]
    assert launcher.lines[-1] == f"error: chief 0 ended with exit code 1: bad: it is wrong. Given: {job.name}"
    with launched(vertex, _FAILS, restarts=3) as second:
        assert second.end() == 2
    assert second.lines[-1].startswith("error: custom job: has failed before: The replica workerpool0-0 exited ")
    assert len(vertex.custom_jobs()) == 1


@pytest.mark.long
def test_launch_retryable_error_restarts_up_to_limit(vertex: Vertex) -> None:
    with launched(vertex, "import sys; sys.exit(138)", restarts=2) as launcher:
        assert launcher.end() == 138
    assert len(vertex.custom_jobs()) == 3
    restarts = [line[-len("(1 of 2)") :] for line in launcher.lines if "restarting the job" in line]
    assert restarts == ["(1 of 2)", "(2 of 2)"]
    assert launcher.lines[-1].startswith("error: custom job: has failed, after 2 restarts: The replica ")
    with launched(vertex, "import sys; sys.exit(138)", restarts=2) as another:
        assert another.end() == 138
    assert len(vertex.custom_jobs()) == 3


@pytest.mark.long
def test_launch_deleted_job_raises_retryable_error(vertex: Vertex) -> None:
    with launched(vertex, _FOREVER) as launcher:
        launcher.until_line("is running")
        (job,) = vertex.custom_jobs()
        vertex.state.remove(job.name)
        assert launcher.end() == 138
    assert launcher.lines[-1] == f"error: custom job: was deleted while it was running. Given: {job.name}"


@pytest.mark.long
def test_launch_cancelled_job_raises_retryable_error(vertex: Vertex) -> None:
    with launched(vertex, _FOREVER) as launcher:
        launcher.until_line("is running")
        (job,) = vertex.custom_jobs()
        jobs(vertex).cancel_custom_job(name=job.name)
        assert launcher.end() == 138
    assert launcher.lines[-1] == f"error: custom job: was cancelled by another client. Given: {job.name}"


@pytest.mark.long
def test_launch_waits_for_quota_at_creation_and_in_queue(vertex: Vertex) -> None:
    vertex.fail("JobService/CreateCustomJob", 429, times=2)
    vertex.hold_jobs()
    with launched(vertex, _HELLO) as launcher:
        launcher.until_line("quota: exhausted (The following quota metrics exceed quota limits: ")
        launcher.until_line("is queued until quota is available")
        vertex.release_jobs()
        assert launcher.end() == 0, launcher.lines
    assert _states(vertex) == [SUCCEEDED]


@pytest.mark.long
def test_launch_capacity_timeout_cancels_job(vertex: Vertex) -> None:
    vertex.hold_jobs()
    with launched(vertex, _HELLO, pending_seconds=1) as launcher:
        assert launcher.end() == 2
    (job,) = vertex.custom_jobs()
    job_id = job.name.rpartition("/")[2]
    assert launcher.lines[-1] == (
        f"error: custom job: is QUEUED for 1 s; check quota and available machines. Given: {job_id}"
    )
    vertex.until_state(job.name, CANCELLED)


@pytest.mark.long
def test_launch_no_machines_is_retried(vertex: Vertex) -> None:
    vertex.run_out_of_machines(2)
    with launched(vertex, _HELLO, restarts=0) as launcher:
        assert launcher.end() == 0, launcher.lines
    warning = "no machines available (Resources are insufficient in region: us-central1. "
    assert sum(line.startswith(warning) for line in launcher.lines) == 2
    assert _states(vertex) == [FAILED, FAILED, SUCCEEDED]


@pytest.mark.long
def test_launch_endless_cancellation_raises_after_timeout(vertex: Vertex) -> None:
    with launched(vertex, _FOREVER) as first:
        first.until_line("is running")
    (job,) = vertex.custom_jobs()
    vertex.state.move(vertex.state.get(v1.CustomJob, job.name), CANCELLING)
    with launched(vertex, _FOREVER, patience=1) as second:
        assert second.end() == 138
    job_id = job.name.rpartition("/")[2]
    assert second.lines[-1] == f"error: custom job {job_id} is being cancelled, for 1 s. Given: {vertex.endpoint}"
    assert _states(vertex) == [CANCELLING]


@pytest.mark.long
def test_launch_retries_connection_and_server_errors(vertex: Vertex) -> None:
    sign = vertex.folder / "sign"
    with launched(vertex, _until(sign)) as launcher:
        launcher.until_line("is running")
        for status in (503, 500, 429, 504):
            vertex.fail("JobService/ListCustomJobs", status)
            vertex.fail("LoggingServiceV2/ListLogEntries", status)
        vertex.cut_connections()
        sign.touch()
        assert launcher.end() == 0, launcher.lines
    assert launcher.lines.count("[chief 0] started") == 1


@pytest.mark.long
def test_launch_unreadable_log_warns_once(vertex: Vertex) -> None:
    vertex.fail("LoggingServiceV2/ListLogEntries", 403, times=1000, message="denied")
    with launched(vertex, _HELLO) as launcher:
        assert launcher.end() == 0, launcher.lines
    warning = "cannot read the log lines of the workers (denied); training continues"
    assert launcher.lines.count(warning) == 1


@pytest.mark.long
def test_launch_active_job_with_other_settings_raises(vertex: Vertex) -> None:
    with launched(vertex, _FOREVER) as first:
        first.until_line("is running")
        with launched(vertex, _FOREVER, pod={"memory": "12Gi"}) as second:
            assert second.end() == 2
        (job,) = vertex.custom_jobs()
        message = "error: custom job: the same training run is active with other settings; "
        assert second.lines[-1].startswith(message)
        assert job.state == RUNNING


@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, "error: permission: create custom jobs is not allowed (Permission 'aiplatform.customJobs.create' denied"),
        (400, "error: create custom jobs: rejected by Vertex AI (Request contains an invalid argument.)"),
    ],
)
def test_launch_rejection_is_single_line(vertex: Vertex, status: int, message: str) -> None:
    vertex.fail("JobService/CreateCustomJob", status)
    with launched(vertex, _HELLO) as launcher:
        assert launcher.end() == 2
    assert launcher.lines[-1].startswith(message)
    assert len(launcher.lines) == 1


def test_launch_without_credentials_is_single_line(vertex: Vertex, tmp_path: Path) -> None:
    without = {"GOOGLE_APPLICATION_CREDENTIALS": "", "HOME": str(tmp_path), "CLOUDSDK_CONFIG": str(tmp_path)}
    with launched(vertex, _HELLO, without) as launcher:
        assert launcher.end() == 2
    assert launcher.lines[-1].startswith("error: credentials: Google credentials not found; log in (gcloud auth ")
