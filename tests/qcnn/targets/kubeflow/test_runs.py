"""Cleanup of the objects of an ended run. tests/kfp has real runs."""

from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts, lease
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB
from qcnn.targets.kubeflow.runs import clean
from tests.qcnn.jobs.apiserver import ApiServer


def _finished(server: ApiServer, run: str) -> str:
    """Create the objects of a succeeded training job, and return the name of its TFJob."""
    job = JobSpec(("train",), {"worker": 1}, 3, heartbeat_timeout_seconds=60, pod=PodSettings(image="qcnn"))
    job_object = server.put("tfjobs", TFJOB.manifest(job, JobIdentity(run, "train"), JobTimeouts()))
    server.put("leases", lease(job_object, "launcher", 600, "2026-01-31T12:00:00.000000Z"))
    server.put("services", TFJOB.services(job_object)[0])
    server.set_condition(job_object, "Succeeded")
    name: str = job_object["metadata"]["name"]
    return name


def test_clean_deletes_finished_tfjobs_of_run_only(api_server: ApiServer) -> None:
    name, other = _finished(api_server, "run-1"), _finished(api_server, "run-2")
    assert clean("run-1", "a") == f"TFJob {name} deleted; no training jobs of the run are left in namespace a"
    assert [job["metadata"]["name"] for job in api_server.all("tfjobs")] == [other]
    for left in ("leases", "services"):
        (found,) = api_server.all(left)
        assert found["metadata"]["name"].startswith(other)
    assert clean("run-1", "a") == "no training jobs of the run are left in namespace a"
