"""Custom jobs of the server, with Google's unmodified clients."""

import json
import subprocess
import sys

import grpc
import pytest
from google.api_core import exceptions
from google.cloud import aiplatform_v1 as v1
from google.cloud.aiplatform_v1.services.job_service.transports.grpc import JobServiceGrpcTransport

from tests.vertex.clients import custom_job, jobs, logging, python_pool
from tests.vertex.fake_service.job_run import CANCELLED, FAILED, QUEUED, RUNNING, SUCCEEDED
from tests.vertex.fake_service.state import PROJECT_NUMBER
from tests.vertex.fake_service.vertex import Vertex

_FOREVER = "import time\nprint('started', flush=True)\nwhile True: time.sleep(60)"
_SPOT = {"strategy": v1.Scheduling.Strategy.SPOT}


def _create(server: Vertex, job: v1.CustomJob) -> str:
    return str(jobs(server).create_custom_job(parent=server.parent, custom_job=job).name)


def test_custom_job_succeeds_and_logs_its_output(vertex: Vertex) -> None:
    name = _create(vertex, custom_job(python_pool("print('one'); print('two')")))
    assert name.startswith(f"projects/{PROJECT_NUMBER}/locations/{vertex.location}/customJobs/")
    job = vertex.until_state(name, SUCCEEDED, FAILED)
    assert job.state == SUCCEEDED
    assert job.create_time <= job.start_time <= job.end_time
    wanted = f'resource.type="ml_job" AND resource.labels.job_id="{name.split("/")[-1]}"'
    found = logging(vertex).list_log_entries(
        {
            "resource_names": [f"projects/{vertex.project}"],
            "filter": f'{wanted} AND resource.labels.task_name="workerpool0-0"',
            "order_by": "timestamp asc",
            "page_size": 1,
        }
    )
    assert [entry.json_payload["message"] for entry in found] == ["one", "two"]


def test_replica_environment_describes_cluster(vertex: Vertex) -> None:
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    chief = f"{show}\nimport time\nwhile not os.path.exists(os.environ['SIGN']): time.sleep(0.05)"
    pools = [python_pool(chief), python_pool(show, 2), v1.WorkerPoolSpec(), python_pool(show)]
    sign = vertex.folder / "sign"
    pools[0].container_spec.env = [v1.EnvVar(name="SIGN", value=str(sign))]
    name = _create(vertex, custom_job(*pools, base_output_directory={"output_uri_prefix": "gs://b/base/"}))
    seen = {}
    for replica in ("workerpool0-0", "workerpool1-0", "workerpool1-1", "workerpool3-0"):
        vertex.until_line(name, replica, "TF_CONFIG")
        seen[replica] = json.loads(vertex.logs.lines(name.split("/")[-1], replica)[0])
    sign.touch()
    assert vertex.until_state(name, SUCCEEDED, FAILED).state == SUCCEEDED
    config = json.loads(seen["workerpool1-1"]["TF_CONFIG"])
    assert config["task"] == {"type": "worker", "index": 1}
    assert {role: len(hosts) for role, hosts in config["cluster"].items()} == {"chief": 1, "worker": 2}
    assert config["environment"] == "cloud"
    spec = json.loads(seen["workerpool3-0"]["CLUSTER_SPEC"])
    assert spec["task"] == {"type": "workerpool3", "index": 0}
    assert set(spec["cluster"]) == {"workerpool0", "workerpool1", "workerpool3"}
    assert {seen[replica]["AIP_CHECKPOINT_DIR"] for replica in seen} == {"gs://b/base/checkpoints/"}
    assert seen["workerpool0-0"]["CLOUD_ML_JOB_ID"] == name.split("/")[-1]


def test_custom_job_fails_with_its_worker(vertex: Vertex) -> None:
    name = _create(vertex, custom_job(python_pool(_FOREVER), python_pool("raise SystemExit(3)")))
    job = vertex.until_state(name, SUCCEEDED, FAILED)
    assert job.state == FAILED
    assert job.error.message.startswith("The replica workerpool1-0 exited with a non-zero status of 3. Termination")


def test_custom_job_can_be_cancelled_then_deleted(vertex: Vertex) -> None:
    client = jobs(vertex)
    name = _create(vertex, custom_job(python_pool(_FOREVER)))
    vertex.until_line(name, "workerpool0-0", "started")
    with pytest.raises(exceptions.FailedPrecondition, match="not in a final state"):
        client.delete_custom_job(name=name)
    client.cancel_custom_job(name=name)
    assert vertex.until_state(name, CANCELLED, SUCCEEDED).state == CANCELLED
    client.delete_custom_job(name=name).result()
    with pytest.raises(exceptions.NotFound):
        client.get_custom_job(name=name)


def test_list_custom_jobs_filters_and_paginates(vertex: Vertex) -> None:
    vertex.hold_jobs()
    names = []
    for number in range(5):
        job = custom_job(python_pool(""))
        job.labels = {"run": "a" if number % 2 else "b", "number": str(number)}
        names.append(_create(vertex, job))
    client = jobs(vertex)
    wanted = v1.ListCustomJobsRequest(parent=vertex.parent, filter='labels.run="b"', page_size=2)
    assert [job.name for job in client.list_custom_jobs(wanted)] == [names[4], names[2], names[0]]
    wanted.filter = 'labels.run=a AND labels.number=3 AND state="JOB_STATE_QUEUED"'
    assert [job.name for job in client.list_custom_jobs(wanted)] == [names[3]]
    wanted.filter = "error.code=3"
    with pytest.raises(exceptions.InvalidArgument, match="Invalid list filter"):
        client.list_custom_jobs(wanted)


def test_custom_job_waits_for_capacity(vertex: Vertex) -> None:
    vertex.hold_jobs()
    name = _create(vertex, custom_job(python_pool("")))
    assert jobs(vertex).get_custom_job(name=name).state == QUEUED
    vertex.release_jobs()
    assert vertex.until_state(name, SUCCEEDED, FAILED).state == SUCCEEDED


def test_preempted_spot_replica_restarts_job_six_times(vertex: Vertex) -> None:
    name = _create(vertex, custom_job(python_pool(_FOREVER), scheduling=_SPOT))
    for start in range(1, 8):
        vertex.until_line(name, "workerpool0-0", "started", times=start)
        assert vertex.until_state(name, RUNNING, FAILED).state == RUNNING
        vertex.preempt(name, "workerpool0-0")
    job = vertex.until_state(name, FAILED)
    assert "Resources are insufficient in region: us-central1" in job.error.message


def test_replica_under_maintenance_restarts_alone(vertex: Vertex) -> None:
    name = _create(vertex, custom_job(python_pool(_FOREVER), python_pool(_FOREVER)))
    vertex.until_line(name, "workerpool0-0", "started")
    vertex.until_line(name, "workerpool1-0", "started")
    vertex.preempt(name, "workerpool1-0")
    vertex.until_line(name, "workerpool1-0", "started", times=2)
    assert vertex.logs.lines(name.split("/")[-1], "workerpool0-0").count("started") == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"display_name": ""}, "display_name"),
        ({"display_name": "a" * 129}, "128 characters"),
        ({"labels": {"Run": "a"}}, "Label keys and values"),
        ({"job_spec": {}}, "worker_pool_specs"),
        ({"job_spec": {"tensorboard": "t"}}, "worker_pool_specs"),
    ],
)
def test_create_custom_job_invalid_field_is_rejected(vertex: Vertex, change: dict[str, object], expected: str) -> None:
    job = custom_job(python_pool(""))
    for field, value in change.items():
        setattr(job, field, value)
    with pytest.raises(exceptions.InvalidArgument, match=expected):
        _create(vertex, job)
    assert not vertex.custom_jobs()


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ({"replica_count": 0}, "replica_count"),
        ({"replica_count": 2}, "first worker pool must be 1"),
        ({"machine_spec": {"machine_type": "n1-standard-5"}}, "'n1-standard-5' is not supported"),
        ({"machine_spec": {"machine_type": "n1-standard-4", "accelerator_type": "NVIDIA_TESLA_T4"}}, "set together"),
        (
            {
                "machine_spec": {
                    "machine_type": "n1-standard-4",
                    "accelerator_type": "NVIDIA_L4",
                    "accelerator_count": 1,
                }
            },
            "NVIDIA_L4 is not supported by",
        ),
        ({"machine_spec": {"machine_type": "g2-standard-4"}}, "needs 1 accelerator"),
        ({"container_spec": {"command": ["a"]}}, "image_uri"),
    ],
)
def test_create_custom_job_invalid_pool_is_rejected(vertex: Vertex, pool: dict[str, object], expected: str) -> None:
    changed = python_pool("")
    for field, value in pool.items():
        setattr(changed, field, value)
    with pytest.raises(exceptions.InvalidArgument, match=expected):
        _create(vertex, custom_job(changed))


def test_fail_affects_given_number_of_calls(vertex: Vertex) -> None:
    client = jobs(vertex)
    vertex.fail("JobService/CreateCustomJob", 429, times=2)
    for _ in range(2):
        with pytest.raises(exceptions.ResourceExhausted, match="quota metrics exceed quota limits"):
            _create(vertex, custom_job(python_pool("")))
    vertex.fail("JobService/GetCustomJob", 403, after=1)
    name = _create(vertex, custom_job(python_pool("")))
    client.get_custom_job(name=name)
    with pytest.raises(exceptions.PermissionDenied):
        client.get_custom_job(name=name)
    client.get_custom_job(name=name)


def test_unanswered_fault_creates_job_without_response(vertex: Vertex) -> None:
    vertex.fail("JobService/CreateCustomJob", 503, answered=False)
    with pytest.raises(exceptions.ServiceUnavailable):
        _create(vertex, custom_job(python_pool("")))
    assert len(vertex.custom_jobs()) == 1


def test_request_without_token_is_unauthenticated(vertex: Vertex) -> None:
    with grpc.secure_channel(vertex.endpoint, grpc.ssl_channel_credentials(vertex.certificate)) as channel:
        client = v1.JobServiceClient(transport=JobServiceGrpcTransport(channel=channel))
        with pytest.raises(exceptions.Unauthenticated):
            client.get_custom_job(name=f"{vertex.parent}/customJobs/1")


def test_request_to_other_project_is_denied(vertex: Vertex) -> None:
    with pytest.raises(exceptions.PermissionDenied):
        jobs(vertex).create_custom_job(
            parent=f"projects/other/locations/{vertex.location}", custom_job=custom_job(python_pool(""))
        )


_SDK = """
import os, sys, warnings
warnings.simplefilter("ignore")
from google.cloud import aiplatform
aiplatform.init(
    project=sys.argv[1], location=sys.argv[2], staging_bucket=sys.argv[3],
    api_endpoint=os.environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"],
)
pool = {
    "machine_spec": {"machine_type": "n1-standard-4"},
    "replica_count": 1,
    "container_spec": {"image_uri": "i", "command": ["echo", "hello"]},
}
job = aiplatform.CustomJob(display_name="shown", worker_pool_specs=[pool])
job.run()
assert [each.resource_name for each in aiplatform.CustomJob.list(filter='display_name="shown"')]
print(job.state.name)
"""


def test_sdk_runs_custom_job(vertex: Vertex) -> None:
    arguments = [vertex.project, vertex.location, f"gs://{vertex.bucket}"]
    done = subprocess.run(
        [sys.executable, "-c", _SDK, *arguments],
        env=vertex.process_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "JOB_STATE_SUCCEEDED"
