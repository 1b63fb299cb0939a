"""Launchers, as processes, against a Vertex AI on this machine: one job lives for a training, whatever happens."""

import re
from pathlib import Path

import pytest
from google.cloud import aiplatform_v1 as v1

from tests.qcnn.jobs.vertex.launchers import launched
from tests.vertex.clients import jobs
from tests.vertex.server.job_run import CANCELLED, CANCELLING, FAILED, RUNNING, SUCCEEDED
from tests.vertex.server.vertex import Vertex

pytestmark = pytest.mark.usefixtures("forks")

_FOREVER = "import time\nprint('started', flush=True)\nwhile True: time.sleep(60)"
_HELLO = "print('hello')"
_FAILS = "import sys\nprint('before')\nsys.exit('bad: it is wrong')"


def _until(sign: Path) -> str:
    """Return a program that ends well once a file is there."""
    wait = f"while not os.path.exists({str(sign)!r}): time.sleep(0.05)"
    return f"import os, time\nprint('started', flush=True)\n{wait}"


def _states(server: Vertex) -> list[v1.JobState]:
    return [job.state for job in server.custom_jobs()]


def test_a_training_runs_and_each_line_is_passed_on_once_with_its_process(vertex: Vertex) -> None:
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
def test_a_training_that_has_succeeded_is_not_started_again(vertex: Vertex) -> None:
    for said in ("is created", "has already succeeded"):
        with launched(vertex, _HELLO) as launcher:
            assert launcher.end() == 0, launcher.lines
        assert said in launcher.lines[0]
    assert _states(vertex) == [SUCCEEDED]


@pytest.mark.long
def test_a_killed_launcher_is_followed_by_one_that_adopts_its_job(vertex: Vertex) -> None:
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
def test_two_launchers_of_one_training_end_with_one_job(vertex: Vertex) -> None:
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
def test_a_job_of_another_launcher_that_is_older_is_kept(vertex: Vertex) -> None:
    """What remains of two that looked before either had created."""
    sign = vertex.folder / "sign"
    with launched(vertex, _until(sign)) as launcher:
        launcher.until_line("is running")
        (own,) = vertex.custom_jobs()
        other = v1.CustomJob(display_name="other", job_spec=own.job_spec, labels=own.labels)
        made = jobs(vertex).create_custom_job(parent=vertex.parent, custom_job=other)
        with vertex.state.changed:
            vertex.state.get(v1.CustomJob, made.name).create_time = own.create_time.replace(year=2020)
        launcher.until_line("is one too many; it is cancelled")
        launcher.until_line("is adopted")
        sign.touch()
        assert launcher.end() == 0, launcher.lines
    assert {job.name: job.state for job in vertex.custom_jobs()} == {own.name: CANCELLED, made.name: SUCCEEDED}


def test_a_creation_whose_answer_is_lost_is_looked_for(vertex: Vertex) -> None:
    sign = vertex.folder / "sign"
    vertex.fail("JobService/CreateCustomJob", 503, answered=False)
    with launched(vertex, _until(sign)) as launcher:
        launcher.until_line("whether there is one is looked for")
        launcher.until_line("is adopted")
        sign.touch()
        assert launcher.end() == 0, launcher.lines
    assert _states(vertex) == [SUCCEEDED]


@pytest.mark.long
def test_a_creation_that_was_not_done_is_asked_for_again(vertex: Vertex) -> None:
    vertex.fail("JobService/CreateCustomJob", 503)
    with launched(vertex, _HELLO) as launcher:
        assert launcher.end() == 0, launcher.lines
    assert _states(vertex) == [SUCCEEDED]


@pytest.mark.long
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_launcher_that_is_killed_around_creation_leaves_at_most_one_job(vertex: Vertex, moment: str) -> None:
    sign = vertex.folder / "sign"
    # Until it is killed, its requests come to nothing, or their answers do.
    vertex.fail("JobService/CreateCustomJob", 503, times=1, answered=moment == "before")
    with launched(vertex, _until(sign)) as first:
        first.until_line("whether there is one is looked for")
        first.kill()
    with launched(vertex, _until(sign)) as second:
        second.until_line("is running")
        sign.touch()
        assert second.end() == 0, second.lines
    assert _states(vertex) == [SUCCEEDED]


def test_a_launcher_that_is_told_to_end_cancels_its_job(vertex: Vertex) -> None:
    with launched(vertex, _FOREVER) as launcher:
        launcher.until_line("[chief 0] started")
        launcher.terminate()
        assert launcher.end() == 128 + 15
    assert re.fullmatch(r"ended by SIGTERM; its custom job is cancelled\. Given: run-1-train-.*", launcher.lines[-1])
    (job,) = vertex.custom_jobs()
    vertex.until_state(job.name, CANCELLED)


@pytest.mark.long
def test_a_fault_of_a_process_is_told_with_its_last_lines_and_not_repeated(vertex: Vertex) -> None:
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
def test_a_training_that_lost_a_process_is_started_again_so_many_times(vertex: Vertex) -> None:
    with launched(vertex, "import sys; sys.exit(138)", restarts=2) as launcher:
        assert launcher.end() == 138
    assert len(vertex.custom_jobs()) == 3
    restarts = [line[-len("(1 of 2)") :] for line in launcher.lines if "it is started again" in line]
    assert restarts == ["(1 of 2)", "(2 of 2)"]
    assert launcher.lines[-1].startswith("error: custom job: processes were lost, after 2 restarts: The replica ")
    with launched(vertex, "import sys; sys.exit(138)", restarts=2) as another:
        assert another.end() == 138
    assert len(vertex.custom_jobs()) == 3


@pytest.mark.long
def test_a_job_that_is_deleted_while_it_is_followed_is_an_error_that_may_be_tried_again(vertex: Vertex) -> None:
    with launched(vertex, _FOREVER) as launcher:
        launcher.until_line("is running")
        (job,) = vertex.custom_jobs()
        vertex.state.remove(job.name)
        assert launcher.end() == 138
    assert launcher.lines[-1] == f"error: custom job: it was deleted while it was followed. Given: {job.name}"


@pytest.mark.long
def test_a_job_that_somebody_else_cancels_is_an_error_that_may_be_tried_again(vertex: Vertex) -> None:
    with launched(vertex, _FOREVER) as launcher:
        launcher.until_line("is running")
        (job,) = vertex.custom_jobs()
        jobs(vertex).cancel_custom_job(name=job.name)
        assert launcher.end() == 138
    assert launcher.lines[-1] == f"error: custom job: somebody else cancelled it. Given: {job.name}"


@pytest.mark.long
def test_quota_is_waited_for_where_it_is_refused_and_where_the_job_is_queued(vertex: Vertex) -> None:
    vertex.fail("JobService/CreateCustomJob", 429, times=2)
    vertex.hold_jobs()
    with launched(vertex, _HELLO) as launcher:
        launcher.until_line("quota: none is left (The following quota metrics exceed quota limits: ")
        launcher.until_line("is queued, which lasts while there is no quota left for it")
        vertex.release_jobs()
        assert launcher.end() == 0, launcher.lines
    assert _states(vertex) == [SUCCEEDED]


@pytest.mark.long
def test_a_job_that_gets_no_machines_is_cancelled_in_the_end(vertex: Vertex) -> None:
    vertex.hold_jobs()
    with launched(vertex, _HELLO, pending_seconds=1) as launcher:
        assert launcher.end() == 2
    (job,) = vertex.custom_jobs()
    job_id = job.name.rpartition("/")[2]
    assert launcher.lines[-1] == (
        f"error: custom job: is QUEUED for 1 s; is there quota, and are there machines? Given: {job_id}"
    )
    vertex.until_state(job.name, CANCELLED)


@pytest.mark.long
def test_a_region_without_machines_is_asked_again(vertex: Vertex) -> None:
    vertex.run_out_of_machines(2)
    with launched(vertex, _HELLO, restarts=0) as launcher:
        assert launcher.end() == 0, launcher.lines
    said = "there are no machines (Resources are insufficient in region: us-central1. "
    assert sum(line.startswith(said) for line in launcher.lines) == 2
    assert _states(vertex) == [FAILED, FAILED, SUCCEEDED]


@pytest.mark.long
def test_a_job_that_is_cancelled_without_end_is_not_waited_for_without_end(vertex: Vertex) -> None:
    with launched(vertex, _FOREVER) as first:
        first.until_line("is running")
    (job,) = vertex.custom_jobs()
    vertex.state.move(vertex.state.get(v1.CustomJob, job.name), CANCELLING)
    with launched(vertex, _FOREVER, patience=1) as second:
        assert second.end() == 138
    job_id = job.name.rpartition("/")[2]
    said = f"error: custom job {job_id} is being cancelled, for 1 s. Given: {vertex.endpoint}"
    assert second.lines[-1] == said
    assert _states(vertex) == [CANCELLING]


@pytest.mark.long
def test_broken_connections_and_errors_of_the_server_are_survived(vertex: Vertex) -> None:
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
def test_a_log_that_may_not_be_read_does_not_end_the_training(vertex: Vertex) -> None:
    vertex.fail("LoggingServiceV2/ListLogEntries", 403, times=1000, message="denied")
    with launched(vertex, _HELLO) as launcher:
        assert launcher.end() == 0, launcher.lines
    warning = "the lines of the workers cannot be read (denied); training goes on without them"
    assert launcher.lines.count(warning) == 1


@pytest.mark.long
def test_the_same_training_with_other_settings_waits_for_the_end_of_the_first(vertex: Vertex) -> None:
    with launched(vertex, _FOREVER) as first:
        first.until_line("is running")
        with launched(vertex, _FOREVER, pod={"memory": "12Gi"}) as second:
            assert second.end() == 2
        (job,) = vertex.custom_jobs()
        assert second.lines[-1].startswith("error: custom job: the same runs already, with other settings; ")
        assert job.state == RUNNING


@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (403, "error: permission: create custom jobs is not allowed (Permission 'aiplatform.customJobs.create' denied"),
        (400, "error: create custom jobs: Vertex AI refuses (Request contains an invalid argument.)"),
    ],
)
def test_a_refusal_is_one_line(vertex: Vertex, status: int, said: str) -> None:
    vertex.fail("JobService/CreateCustomJob", status)
    with launched(vertex, _HELLO) as launcher:
        assert launcher.end() == 2
    assert launcher.lines[-1].startswith(said)
    assert len(launcher.lines) == 1


def test_no_credentials_are_one_line(vertex: Vertex, tmp_path: Path) -> None:
    without = {"GOOGLE_APPLICATION_CREDENTIALS": "", "HOME": str(tmp_path), "CLOUDSDK_CONFIG": str(tmp_path)}
    with launched(vertex, _HELLO, without) as launcher:
        assert launcher.end() == 2
    assert launcher.lines[-1].startswith("error: credentials: none of Google are found; log in (gcloud auth ")
