"""Status of TFJobs and their processes from objects of the API server."""

import datetime
from typing import Any

import pytest

from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.pods import PodProcess, read_process
from qcnn.jobs.kubernetes.status import process_state, process_statuses, status_of
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts, with_restarts
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB
from qcnn.process.exit_codes import ABANDONED
from tests.qcnn.jobs.kubernetes.processes import process

NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, tzinfo=datetime.UTC)
OUTPUTS = {"training": "gs://a/$(QCNN_JOB)/training"}


def _job(**status: Any) -> dict[str, Any]:
    job = JobSpec(
        ("train",),
        {"worker": 3},
        restarts=3,
        heartbeat_timeout_seconds=60,
        pod=PodSettings(image="qcnn"),
        outputs=OUTPUTS,
    )
    manifest = TFJOB.manifest(job, JobIdentity("run", "train"), JobTimeouts())
    manifest["metadata"] |= {"uid": "1-2-3", "creationTimestamp": "2026-01-31T11:00:00Z"}
    return {
        **manifest,
        "status": {"conditions": [{"type": "Running", "status": "True", "message": "it runs"}], **status},
    }


def _pod(index: int, **state: Any) -> dict[str, Any]:
    labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": str(index)}
    name = f"{_job()['metadata']['name']}-worker-{index}"
    return {
        "metadata": {"name": name, "uid": f"uid-{index}", "labels": labels},
        "status": {"containerStatuses": [{"name": "tensorflow", "state": state}]},
    }


RUNNING: dict[str, Any] = {"running": {}}
ENDED = [{"type": "Failed", "status": "True"}]
WAITING = {"waiting": {"reason": "ContainerCreating"}}


def test_status_has_processes_times_and_outputs() -> None:
    pods = [_pod(0, **RUNNING), _pod(1, **WAITING), _pod(2, **RUNNING)]
    scheduled = [
        {
            "metadata": {"creationTimestamp": "2026-01-31T11:30:00Z"},
            "involvedObject": {"name": pods[0]["metadata"]["name"], "uid": "earlier pod"},
        }
    ]
    job = _job(startTime="2026-01-31T11:00:30Z")
    name = job["metadata"]["name"]
    status = status_of(TFJOB, job, [read_process(pod, TFJOB) for pod in pods], scheduled, NOON)
    assert (status.name, status.run, status.state, status.message) == (name, "run", "Running", "it runs")
    assert (status.processes, status.running, status.restarts) == (3, 2, 1)
    assert (status.age, status.duration) == (3600, 3570)
    assert status.outputs == {"training": f"gs://a/{name}/training"}


def test_duration_ends_at_completion_and_is_none_before_start() -> None:
    ended = _job(startTime="2026-01-31T11:10:00Z", completionTime="2026-01-31T11:10:05Z")
    assert status_of(TFJOB, ended, [], [], NOON).duration == 5
    assert status_of(TFJOB, _job(), [], [], NOON).duration is None


@pytest.mark.parametrize(
    ("observed", "state"),
    [
        (None, "waiting"),
        (process("0a"), "running"),
        (process("0a!"), "ending"),
        (process("0a:0"), "finished"),
        (process("0a:0!"), "finished"),
        (process("0a:1"), "failed"),
        (process("0a:137^"), "failed"),
        (process("0a:137"), "lost"),
        (process("0a:143!"), "lost"),
    ],
)
def test_process_state_follows_from_pod(observed: PodProcess | None, state: str) -> None:
    assert process_state(observed) == state


def test_events_are_read_only_if_pod_shows_no_reason() -> None:
    queried: list[str | None] = []

    def find_reason(process: PodProcess | None, pod: str) -> str:
        queried.append(process.name if process else None)
        assert process is None or process.pod == pod
        return "by events"

    def troubles(*pods: dict[str, Any], **status: Any) -> list[str | None]:
        processes = [read_process(pod, TFJOB) for pod in pods]
        return [each.trouble for each in process_statuses(TFJOB, _job(**status), processes, find_reason)]

    image = {"waiting": {"reason": "ErrImagePull", "message": "none"}}
    assert troubles(_pod(0, **RUNNING), _pod(1, **image), _pod(2, **RUNNING)) == [
        None,
        "cannot start, ErrImagePull: none",
        None,
    ]
    assert queried == []
    assert troubles(_pod(0, **WAITING), _pod(2, **RUNNING)) == ["by events", "by events", None]
    assert queried == ["worker 0", None]
    assert troubles(_pod(0, **WAITING), conditions=ENDED) == [None, None, None]
    assert queried == ["worker 0", None]


def test_process_statuses_include_processes_without_pod() -> None:
    pods = [_pod(1, terminated={"exitCode": 3, "reason": "Error"})]
    first, second, _ = process_statuses(TFJOB, _job(), [read_process(pod, TFJOB) for pod in pods], lambda *_: None)
    assert (first.name, first.pod, first.state, first.exit_code) == ("worker 0", None, "waiting", None)
    assert (second.name, second.pod, second.state, second.exit_code) == (
        "worker 1",
        pods[0]["metadata"]["name"],
        "failed",
        3,
    )


def test_ended_job_has_no_waiting_process() -> None:
    pods = [read_process(_pod(0, **WAITING), TFJOB), read_process(_pod(1, terminated={"exitCode": 0}), TFJOB)]
    statuses = process_statuses(TFJOB, _job(conditions=ENDED), pods, lambda *_: "by events")
    assert [each.state for each in statuses] == ["not started", "finished", "removed"]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"exitCode": ABANDONED, "reason": "Error"}, "its launcher did not renew the Lease"),
        ({"exitCode": 137, "reason": "OOMKilled"}, "used more memory than its limit"),
        ({"exitCode": 1, "reason": "Error"}, None),
    ],
)
def test_process_has_exit_reason_if_code_is_ambiguous(state: dict[str, Any], reason: str | None) -> None:
    pods = [read_process(_pod(0, terminated=state), TFJOB)]
    first, *_ = process_statuses(TFJOB, _job(conditions=ENDED), pods, lambda *_: None)
    assert (first.trouble or "").startswith(reason or "")
    assert bool(first.trouble) is bool(reason)


def test_restarts_include_replaced_jobs() -> None:
    replacing = with_restarts(_job(), 2)
    assert status_of(TFJOB, replacing, [], [], NOON).restarts == 2


def test_suspended_job_in_queue_names_it() -> None:
    suspended = {"type": "Suspended", "status": "True", "message": "it is suspended"}
    job = _job(conditions=[{**suspended, "lastTransitionTime": "2026-01-31T11:30:00Z"}])
    assert status_of(TFJOB, job, [], [], NOON).message == "it is suspended"
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team"
    assert status_of(TFJOB, job, [], [], NOON).message == "queued in team"
