"""An experiment as a training job."""

import sys
from typing import Any

import pytest

from qcnn.components.training_job import cluster_job, is_retry, local_job, run_id
from qcnn.errors import ConfigError
from qcnn.experiment_io import from_json, from_mapping
from qcnn.jobs.job import Job, JobIdentity
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob import status
from qcnn.jobs.tfjob.manifest import JobTimeouts, tfjob

POD = PodSettings(image="qcnn", volumes={"/data": {"persistentVolumeClaim": {"claimName": "outputs"}}})
EXPERIMENT = from_mapping(
    {"qubits": 4, "workers": 3, "options": {"max_restarts": 7, "heartbeat_timeout_seconds": 90.0}}
)


def _given(job: Job) -> dict[str, str]:
    """Return what the worker is told, by flag."""
    words = job.argv[3:]
    return dict(zip(words[::2], words[1::2], strict=True))


def test_a_training_is_the_same_wherever_it_runs() -> None:
    here = local_job(EXPERIMENT, "/dataset", "/output/$(QCNN_JOB)/training", "/output/$(QCNN_JOB)/logs")
    there = cluster_job(EXPERIMENT, "/output", POD, dataset="/dataset")
    assert here.argv[0] == sys.executable
    assert here.argv[1:] == there.argv[1:]
    for job in (here, there):
        assert (job.processes(), job.restarts, job.heartbeat_timeout_seconds) == (
            [("worker", 0), ("worker", 1), ("worker", 2)],
            7,
            90,
        )
        assert from_json(_given(job)["--experiment"]) == EXPERIMENT
    assert (here.outputs, here.port_flags) == (there.outputs, there.port_flags)
    assert (here.pod, there.pod) == (None, POD)


@pytest.mark.parametrize("output", ["gs://bucket", "s3://bucket/a/b/", "minio://bucket/a", "/data"])
def test_what_is_written_lies_in_a_folder_named_by_the_job(output: str) -> None:
    described = cluster_job(EXPERIMENT, output, POD)
    job = tfjob(described, JobIdentity("run", "train"), JobTimeouts(lease_seconds=None))
    place = f"{output.rstrip('/')}/{job['metadata']['name']}"
    assert status.outputs(job) == {name: f"{place}/{name}" for name in ("training", "logs", "model")}
    told = {flag: word.replace("$(QCNN_JOB)", job["metadata"]["name"]) for flag, word in _given(described).items()}
    assert [told[flag] for flag in ("--workdir", "--logs", "--export")] == list(status.outputs(job).values())
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3


def test_a_training_with_a_dataset_leaves_the_export_to_others() -> None:
    job = cluster_job(EXPERIMENT, "gs://bucket", POD, dataset="gs://bucket/dataset")
    assert job.outputs.keys() == {"training", "logs"}
    assert _given(job).keys() == {"--experiment", "--dataset", "--workdir", "--logs"}


@pytest.mark.parametrize(
    ("output", "words", "said"),
    [
        ("runs", {}, "^output: must be gs://BUCKET/FOLDER, .* a volume. Given: runs$"),
        ("ftp://host/a", {}, "^uri: must be .* Given: ftp://host/a$"),
        ("gs://bucket", {"continue_from": "runs/a"}, "^continue_from: must be in a bucket .* Given: runs/a$"),
        ("/data", {"continue_from": "gs://bucket/a"}, "^continue_from: must be in a bucket .* Given: gs://bucket/a$"),
    ],
)
def test_what_not_every_pod_could_reach_is_refused(output: str, words: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        cluster_job(from_mapping({"options": words}), output, POD)


@pytest.mark.parametrize(
    ("words", "replicas", "ignore_exit", "restart_individually"),
    [
        ({"workers": 2}, {"worker": 2}, ("evaluator",), ("evaluator",)),
        (
            {"workers": 2, "options": {"chief": 1, "evaluator": 1}},
            {"chief": 1, "worker": 1, "evaluator": 1},
            ("evaluator",),
            ("evaluator",),
        ),
        (
            {"workers": 2, "strategy": "parameter_server", "options": {"ps": 3}},
            {"chief": 1, "worker": 2, "ps": 3},
            ("worker", "ps", "evaluator"),
            ("worker", "evaluator"),
        ),
    ],
)
def test_roles_are_those_of_the_strategy_wherever_it_runs(
    words: dict[str, Any], replicas: dict[str, int], ignore_exit: tuple[str, ...], restart_individually: tuple[str, ...]
) -> None:
    config = from_mapping(words)
    for job in (local_job(config, "/dataset", "/training", "/logs"), cluster_job(config, "gs://bucket", POD)):
        assert dict(job.replicas) == replicas
        assert (job.ignore_exit, job.restart_individually) == (ignore_exit, restart_individually)


def test_only_trainings_on_the_same_devices_share_processes() -> None:
    words: tuple[dict[str, Any], ...] = (
        {},
        {"seed": 3},
        {"options": {"intra_threads": 2}},
        {"strategy": "mirrored", "workers": 1},
    )
    kinds = [local_job(from_mapping(each), "/dataset", "/training", "/logs").kind for each in words]
    assert kinds[0] == kinds[1]
    assert len(set(kinds)) == 3


def test_outside_of_a_backend_there_is_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QCNN_RUN", raising=False)
    assert run_id() == ""
    monkeypatch.setenv("QCNN_RUN", "193e3cb6")
    assert run_id() == "193e3cb6"


@pytest.mark.parametrize(("index", "expected"), [(None, False), ("", False), ("0", False), ("1", True), ("x", False)])
def test_the_backends_own_retries_are_counted_from_one(
    monkeypatch: pytest.MonkeyPatch, index: str | None, expected: bool
) -> None:
    monkeypatch.delenv("KFP_RETRY_INDEX", raising=False)
    if index is not None:
        monkeypatch.setenv("KFP_RETRY_INDEX", index)
    assert is_retry() is expected
