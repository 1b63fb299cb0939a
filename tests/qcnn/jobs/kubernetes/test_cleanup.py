"""Orphans, and the dependents of deleted jobs."""

import datetime
from typing import Any

import pytest

from qcnn.components.training_job import cluster_job
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.api import PODS
from qcnn.jobs.kubernetes.cleanup import OwnedObject, find_orphans, objects_of_run, with_dependents
from qcnn.jobs.kubernetes.manifest import OWN
from qcnn.jobs.kubernetes.predict_job import for_training
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts, lease
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.references import micro_time
from qcnn.jobs.tfjob.engine import TFJOB

NOW = datetime.datetime(2026, 1, 31, 12, 0, 0, tzinfo=datetime.UTC)
JOB: JobSpec = cluster_job(from_mapping({}), "gs://bucket", PodSettings(image="qcnn"))


def _seconds_ago(seconds: float) -> datetime.datetime:
    return NOW - datetime.timedelta(seconds=seconds)


def _existing(manifest: dict[str, Any], uid: str, age: float = 0) -> OwnedObject:
    manifest["metadata"] |= {"uid": uid, "creationTimestamp": f"{_seconds_ago(age):%Y-%m-%dT%H:%M:%SZ}"}
    return _object(manifest["kind"], manifest)


def _object(kind: str, found: dict[str, Any]) -> OwnedObject:
    found["metadata"].setdefault("creationTimestamp", f"{NOW:%Y-%m-%dT%H:%M:%SZ}")
    return OwnedObject(kind, found, PODS, TFJOB if kind == "TFJob" else None)


def _training(age: float = 0, run: str = "run", lease_seconds: int | None = 60, state: str = "Running") -> OwnedObject:
    manifest = TFJOB.manifest(JOB, JobIdentity(run, "train"), JobTimeouts(lease_seconds=lease_seconds))
    manifest["status"] = {"conditions": [{"type": state, "status": "True"}]}
    return _existing(manifest, f"{run}-uid", age)


def _lease(job: OwnedObject, renewed: float, seconds: int = 60) -> OwnedObject:
    return _existing(lease(job.object, "test", seconds, micro_time(_seconds_ago(renewed))), f"{job.uid}-lease")


def _pod(owner: str, uid: str) -> OwnedObject:
    reference = {"kind": "TFJob", "name": "any", "uid": owner}
    return _object("Pod", {"metadata": {"name": uid, "uid": uid, "labels": dict(OWN), "ownerReferences": [reference]}})


@pytest.mark.parametrize(
    ("job", "renewed", "is_orphan"),
    [
        (_training(age=1000), 61, True),
        (_training(age=1000), 59, False),
        (_training(age=61), None, True),
        (_training(age=59), None, False),
        (_training(age=1000, lease_seconds=None), None, False),
        (_training(age=1000, state="Succeeded"), 1000, False),
        (_training(age=1000, state="Failed"), 1000, False),
    ],
)
def test_job_with_stale_lease_is_orphan(job: OwnedObject, renewed: float | None, is_orphan: bool) -> None:
    everything = [job] if renewed is None else [_lease(job, renewed), job]
    assert find_orphans(everything, [TFJOB], NOW) == ([job] if is_orphan else [])


def test_orphan_with_custom_command_is_found() -> None:
    job = _training(age=61)
    for spec in job.object["spec"]["tfReplicaSpecs"].values():
        spec["template"]["spec"]["containers"][0]["command"] = ["python", "-m", "another.module"]
    assert find_orphans([job], [TFJOB], NOW) == [job]


@pytest.mark.parametrize("runs", [("量子", "卷积"), ("exp_1", "exp.1", "EXP 1"), ("r" * 70 + "a", "r" * 70 + "b")])
def test_objects_of_run_matches_exact_run_name(runs: tuple[str, ...]) -> None:
    everything = [_training(run=run) for run in runs]
    for run, job in zip(runs, everything, strict=True):
        assert objects_of_run(run, everything) == [job]
    assert objects_of_run("", everything) == objects_of_run("exp-1", everything) == []


def test_object_without_run_belongs_to_no_run() -> None:
    assert objects_of_run("", [_pod("any", "unnamed")]) == []


def test_lease_duration_overrides_annotation_of_job() -> None:
    job = _training(age=1000)
    assert find_orphans([_lease(job, 100, seconds=200), job], [TFJOB], NOW) == []


def test_managed_object_without_owner_is_orphan() -> None:
    job = _training(lease_seconds=None)
    kept, orphan = _pod(job.uid, "kept"), _pod("deleted", "orphan")
    unlabelled = _object("Service", {"metadata": {"name": "x", "uid": "x", "ownerReferences": kept.object["metadata"]}})
    unlabelled.object["metadata"]["ownerReferences"] = [{"kind": "TFJob", "name": "any", "uid": "deleted"}]
    assert find_orphans([kept, orphan, unlabelled, job], [TFJOB], NOW) == [orphan]


def test_with_dependents_adds_predictions_and_owned_objects() -> None:
    job, other = _training(state="Succeeded"), _training(run="other")
    service, of_lease, pod = _existing(TFJOB.services(job.object)[0], "service"), _lease(job, 0), _pod(job.uid, "pod")
    template = job.object["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    prediction = _existing(for_training(TFJOB, job.object, template), "prediction")
    predicting = _pod("prediction", "predicting")
    predicting.object["metadata"]["ownerReferences"][0]["kind"] = "Job"
    everything = [pod, predicting, _pod(other.uid, "of other"), service, of_lease, prediction, job, other]
    selected = with_dependents([job], everything)
    assert {found.uid for found in selected} == {job.uid, "prediction", "service", of_lease.uid, "pod", "predicting"}
    assert {found.uid for found in with_dependents([prediction], everything)} == {"prediction", "predicting"}
