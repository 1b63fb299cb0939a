"""Faults between client and server that tests inject."""

import pytest
from google.api_core import exceptions, retry
from google.cloud import aiplatform_v1 as v1

from tests.vertex.clients import custom_job, jobs, logging, python_pool
from tests.vertex.fake_service.job_run import CANCELLED, FAILED, RUNNING, SUCCEEDED
from tests.vertex.fake_service.vertex import Vertex

_FOREVER = "import time\nprint('started', flush=True)\nwhile True: time.sleep(60)"


def _create(server: Vertex, job: v1.CustomJob) -> str:
    return str(jobs(server).create_custom_job(parent=server.parent, custom_job=job).name)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, exceptions.InvalidArgument),
        (403, exceptions.PermissionDenied),
        (404, exceptions.NotFound),
        (409, exceptions.AlreadyExists),
        (429, exceptions.ResourceExhausted),
        (500, exceptions.InternalServerError),
        (503, exceptions.ServiceUnavailable),
        (504, exceptions.DeadlineExceeded),
    ],
)
def test_http_status_raises_client_exception(vertex: Vertex, status: int, kind: type[Exception]) -> None:
    vertex.fail("JobService/ListCustomJobs", status, message="injected")
    with pytest.raises(kind, match="injected"):
        jobs(vertex).list_custom_jobs(parent=vertex.parent)
    assert not list(jobs(vertex).list_custom_jobs(parent=vertex.parent))


def test_client_reconnects_after_aborted_connection(vertex: Vertex) -> None:
    client = jobs(vertex)
    name = _create(vertex, custom_job(python_pool(_FOREVER)))
    vertex.until_state(name, RUNNING)
    assert client.get_custom_job(name=name).state == RUNNING
    vertex.cut_connections()
    # The library retries this error only if it is configured to.
    patient = retry.Retry(predicate=retry.if_exception_type(exceptions.ServiceUnavailable), initial=0.01)
    assert client.get_custom_job(name=name, retry=patient).state == RUNNING


def test_held_operation_does_not_end(vertex: Vertex) -> None:
    client = jobs(vertex)
    name = _create(vertex, custom_job(python_pool("")))
    vertex.until_state(name, SUCCEEDED)
    vertex.operations.hold()
    operation = client.delete_custom_job(name=name)
    assert not operation.done()
    assert client.get_custom_job(name=name).name == name
    vertex.operations.release()
    client.delete_custom_job(name=name).result()


def test_held_log_lines_are_listed_after_release(vertex: Vertex) -> None:
    vertex.logs.hold()
    name = _create(vertex, custom_job(python_pool("print('one')")))
    vertex.until_state(name, SUCCEEDED)
    wanted = {
        "resource_names": [f"projects/{vertex.project}"],
        "filter": f'resource.labels.job_id="{name.split("/")[-1]}" AND resource.labels.task_name="workerpool0-0"',
    }
    assert not list(logging(vertex).list_log_entries(wanted))
    vertex.logs.release()
    assert len(list(logging(vertex).list_log_entries(wanted))) == 1


def test_custom_job_fails_after_timeout(vertex: Vertex) -> None:
    job = vertex.until_state(
        _create(vertex, custom_job(python_pool(_FOREVER), scheduling={"timeout": {"seconds": 1}})), FAILED, SUCCEEDED
    )
    assert job.state == FAILED
    assert "maximum running time" in job.error.message


def test_cancelled_job_that_ignores_sigterm_is_killed(vertex: Vertex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.vertex.fake_service.job_run._GRACE", 0.1)
    program = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{_FOREVER}"
    name = _create(vertex, custom_job(python_pool(program)))
    vertex.until_line(name, "workerpool0-0", "started")
    jobs(vertex).cancel_custom_job(name=name)
    assert vertex.until_state(name, CANCELLED, FAILED, SUCCEEDED).state == CANCELLED
