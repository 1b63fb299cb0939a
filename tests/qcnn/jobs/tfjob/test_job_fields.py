"""Fields of TFJobs, with conditions as observed on a cluster."""

import pytest

from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.manifest import Manifest
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts, lease_seconds, outputs
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB

OUTPUTS = {"logs": "gs://a/$(QCNN_JOB)/logs", "training": "gs://a/$(QCNN_JOB)/b"}
POD = PodSettings(image="qcnn", service_account="trainer")
JOB = JobSpec(("train",), {"chief": 1, "worker": 2}, restarts=3, heartbeat_timeout_seconds=60, pod=POD, outputs=OUTPUTS)


def _tfjob(*conditions: tuple[str, str], policy: JobTimeouts | None = None) -> Manifest:
    manifest = TFJOB.manifest(JOB, JobIdentity("run", "train"), policy or JobTimeouts())
    manifest["status"] = {"conditions": [{"type": kind, "status": value} for kind, value in conditions]}
    return manifest


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([], "New"),
        ([("Created", "True")], "Created"),
        ([("Created", "True"), ("Running", "True")], "Running"),
        ([("Created", "True"), ("Running", "False"), ("Restarting", "True")], "Restarting"),
        ([("Created", "True"), ("Running", "False"), ("Succeeded", "True")], "Succeeded"),
        ([("Created", "True"), ("Restarting", "True"), ("Failed", "True")], "Failed"),
    ],
)
def test_state_is_last_condition(conditions: list[tuple[str, str]], state: str) -> None:
    assert TFJOB.state(_tfjob(*conditions)) == state
    deleted = _tfjob(*conditions)
    deleted["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert TFJOB.state(deleted) == "Deleting"


def test_replicas_include_all_roles() -> None:
    assert TFJOB.replicas(_tfjob()) == [("chief", 0), ("worker", 0), ("worker", 1)]


@pytest.mark.parametrize("seconds", [None, 30])
def test_settings_are_read_from_manifest_not_command(seconds: int | None) -> None:
    job = _tfjob(policy=JobTimeouts(lease_seconds=seconds))
    for spec in job["spec"]["tfReplicaSpecs"].values():
        spec["template"]["spec"]["containers"][0]["command"] = ["python", "-m", "another.module"]
    name = job["metadata"]["name"]
    assert lease_seconds(job) == seconds
    assert list(outputs(job).items()) == [("training", f"gs://a/{name}/b"), ("logs", f"gs://a/{name}/logs")]


def test_invalid_annotations_are_ignored() -> None:
    job = _tfjob()
    job["metadata"]["annotations"] = {"qcnn/lease-seconds": "soon", "qcnn/model": ""}
    assert (lease_seconds(job), outputs(job)) == (None, {})
    del job["metadata"]["annotations"]
    assert (lease_seconds(job), outputs(job)) == (None, {})
