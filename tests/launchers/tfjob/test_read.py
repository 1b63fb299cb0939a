"""What TFJobs say, in the words of the operator (seen on a real cluster)."""

import pytest

from launchers.job import Job
from launchers.kubernetes import events
from launchers.kubernetes.identity import Identity
from launchers.kubernetes.kinds import is_suspended
from launchers.pod import Pod
from launchers.tfjob import read
from launchers.tfjob.manifest import Manifest, Policy, tfjob

OUTPUTS = {"logs": "gs://a/$(QCNN_JOB)/logs", "training": "gs://a/$(QCNN_JOB)/b"}
POD = Pod(image="qcnn", service_account="trainer")
JOB = Job(("train",), {"chief": 1, "worker": 2}, restarts=3, hang_seconds=60, pod=POD, outputs=OUTPUTS)


def _tfjob(*conditions: tuple[str, str], policy: Policy | None = None) -> Manifest:
    made = tfjob(JOB, Identity("run", "train"), policy or Policy())
    made["status"] = {"conditions": [{"type": kind, "status": status} for kind, status in conditions]}
    made["metadata"] |= {"uid": "1-2-3", "creationTimestamp": "2026-01-31T12:00:00Z"}
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


def test_who_is_held_back_by_a_queue_is_suspended() -> None:
    job = _tfjob()
    assert not is_suspended(job)
    job["spec"]["runPolicy"]["suspend"] = True
    assert is_suspended(job)
    assert is_suspended({"kind": "Job", "spec": {"suspend": True}})
    assert not is_suspended({"kind": "Job", "spec": {"suspend": False}})


def test_processes_are_those_of_all_roles() -> None:
    assert read.processes(_tfjob()) == [("chief", 0), ("worker", 0), ("worker", 1)]


@pytest.mark.parametrize("seconds", [None, 30])
def test_what_a_job_is_stands_in_its_manifest_and_not_in_its_command(seconds: int | None) -> None:
    made = _tfjob(policy=Policy(lease_seconds=seconds))
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


def _scheduled(name: str, uid: str, created: str = "2026-01-31T12:00:01Z") -> Manifest:
    return {"metadata": {"creationTimestamp": created}, "involvedObject": {"name": name, "uid": uid}}


def test_restarts_are_the_lives_of_processes_beyond_the_first() -> None:
    made = _tfjob()
    name = made["metadata"]["name"]
    first, second = f"{name}-worker-0", f"{name}-worker-1"
    found = [
        _scheduled(first, "a"),
        _scheduled(first, "b"),
        _scheduled(second, "c"),
        _scheduled(second, "of a job of this name before", "2026-01-31T11:00:00Z"),
        _scheduled("another-worker-0", "d"),
    ]
    assert events.restarts(made, [], []) == 0
    assert events.restarts(made, found, []) == 1
    assert events.restarts(made, found, [{"metadata": {"name": first, "uid": "e"}}]) == 2


def test_workers_that_begin_again_together_are_one_restart() -> None:
    made = _tfjob()
    names = [f"{made['metadata']['name']}-worker-{index}" for index in (0, 1)]
    assert events.restarts(made, [_scheduled(name, name + life) for name in names for life in "ab"], []) == 1


def test_a_suspension_is_no_restart() -> None:
    made = _tfjob(("Created", "True"), ("Suspended", "False"))
    made["status"]["conditions"][1]["lastTransitionTime"] = "2026-01-31T12:30:00Z"
    name = f"{made['metadata']['name']}-worker-0"
    before, after, again = (
        _scheduled(name, uid, f"2026-01-31T12:{minute}:00Z") for uid, minute in (("a", "10"), ("b", "30"), ("c", "40"))
    )
    assert events.restarts(made, [before, after], []) == 0
    assert events.restarts(made, [before, after, again], []) == 1
    assert events.restarts(made, [before], []) == 0


def test_the_last_warning_of_a_kind_is_one_line() -> None:
    def warning(reason: str, second: int) -> Manifest:
        return {"reason": reason, "message": f"no\nroom {second}", "lastTimestamp": f"2026-01-31T12:00:0{second}Z"}

    warnings = [warning("FailedCreatePod", 2), warning("FailedCreatePod", 1), warning("Error", 3)]
    assert events.last_warning(warnings, "FailedCreate") == "cannot start, FailedCreatePod: no room 2"
    assert events.last_warning(warnings) == "cannot start, Error: no room 3"
    assert events.last_warning([]) is None


def test_of_warnings_the_one_that_says_why_is_shown() -> None:
    # As the kubelet writes them where an image is not there, all within a second or two.
    messages = ('Failed to pull image "a/b:1": not found', "Error: ErrImagePull", "Error: ImagePullBackOff")
    warnings = [
        {"reason": "Failed", "message": message, "lastTimestamp": f"2026-01-31T12:00:0{second}Z"}
        for second, message in enumerate(messages)
    ]
    assert events.last_warning(warnings) == 'cannot start, Failed: Failed to pull image "a/b:1": not found'
