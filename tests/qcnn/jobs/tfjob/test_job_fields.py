"""What TFJobs say, in the words of the operator (seen on a real cluster)."""

import pytest

from qcnn.jobs.job import Job, JobIdentity
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob import status as read
from qcnn.jobs.tfjob.manifest import JobTimeouts, Manifest, tfjob

OUTPUTS = {"logs": "gs://a/$(QCNN_JOB)/logs", "training": "gs://a/$(QCNN_JOB)/b"}
POD = PodSettings(image="qcnn", service_account="trainer")
JOB = Job(("train",), {"chief": 1, "worker": 2}, restarts=3, heartbeat_timeout_seconds=60, pod=POD, outputs=OUTPUTS)


def _tfjob(*conditions: tuple[str, str], policy: JobTimeouts | None = None) -> Manifest:
    made = tfjob(JOB, JobIdentity("run", "train"), policy or JobTimeouts())
    made["status"] = {"conditions": [{"type": kind, "status": status} for kind, status in conditions]}
    return made


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
def test_the_state_is_the_condition_that_says_most(conditions: list[tuple[str, str]], state: str) -> None:
    assert read.state(_tfjob(*conditions)) == state
    deleted = _tfjob(*conditions)
    deleted["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert read.state(deleted) == "Deleting"


def test_processes_are_those_of_all_roles() -> None:
    assert read.replicas(_tfjob()) == [("chief", 0), ("worker", 0), ("worker", 1)]


@pytest.mark.parametrize("seconds", [None, 30])
def test_what_a_job_is_stands_in_its_manifest_and_not_in_its_command(seconds: int | None) -> None:
    made = _tfjob(policy=JobTimeouts(lease_seconds=seconds))
    for spec in made["spec"]["tfReplicaSpecs"].values():
        spec["template"]["spec"]["containers"][0]["command"] = ["python", "-m", "another.module"]
    name = made["metadata"]["name"]
    assert read.lease_seconds(made) == seconds
    assert list(read.outputs(made).items()) == [("training", f"gs://a/{name}/b"), ("logs", f"gs://a/{name}/logs")]
    assert (read.restarts(made), read.service_account(made)) == (3, "trainer")


def test_what_others_have_made_of_annotations_is_no_failure() -> None:
    made = _tfjob()
    made["metadata"]["annotations"] = {"qcnn/lease-seconds": "soon", "qcnn/model": ""}
    assert (read.lease_seconds(made), read.outputs(made)) == (None, {})
    del made["metadata"]["annotations"]
    assert (read.lease_seconds(made), read.outputs(made)) == (None, {})
