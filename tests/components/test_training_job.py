"""Training jobs of experiments."""

import sys
from typing import Any

import pytest

from qcnn.components.training_job import cluster_job, is_retry, local_job, run_id
from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_json, from_mapping
from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts, outputs
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB

POD = PodSettings(image="qcnn", volumes={"/data": {"persistentVolumeClaim": {"claimName": "outputs"}}})
EXPERIMENT = from_mapping(
    {"qubits": 4, "workers": 3, "options": {"max_restarts": 7, "heartbeat_timeout_seconds": 90.0}}
)


def _flags(job: JobSpec) -> dict[str, str]:
    """Return the worker's arguments by flag."""
    arguments = job.argv[3:]
    return dict(zip(arguments[::2], arguments[1::2], strict=True))


def test_local_and_cluster_jobs_are_equal() -> None:
    local = local_job(EXPERIMENT, "/dataset", "/output/$(QCNN_JOB)/training", "/output/$(QCNN_JOB)/logs")
    cluster = cluster_job(EXPERIMENT, "/output", POD, dataset="/dataset")
    assert local.argv[0] == sys.executable
    assert local.argv[1:] == cluster.argv[1:]
    for job in (local, cluster):
        assert (job.processes(), job.restarts, job.heartbeat_timeout_seconds) == (
            [("worker", 0), ("worker", 1), ("worker", 2)],
            7,
            90,
        )
        assert from_json(_flags(job)["--experiment"]) == EXPERIMENT
    assert (local.outputs, local.port_flags) == (cluster.outputs, cluster.port_flags)
    assert (local.pod, cluster.pod) == (None, POD)


@pytest.mark.parametrize("output", ["gs://bucket", "s3://bucket/a/b/", "minio://bucket/a", "/data"])
def test_cluster_job_outputs_are_in_folder_of_the_job(output: str) -> None:
    described = cluster_job(EXPERIMENT, output, POD)
    job = TFJOB.manifest(described, JobIdentity("run", "train"), JobTimeouts(lease_seconds=None))
    folder = f"{output.rstrip('/')}/{job['metadata']['name']}"
    assert outputs(job) == {name: f"{folder}/{name}" for name in ("training", "logs", "model")}
    flags = {flag: value.replace("$(QCNN_JOB)", job["metadata"]["name"]) for flag, value in _flags(described).items()}
    assert [flags[flag] for flag in ("--workdir", "--logs", "--export")] == list(outputs(job).values())
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3


def test_cluster_job_with_dataset_does_not_export() -> None:
    job = cluster_job(EXPERIMENT, "gs://bucket", POD, dataset="gs://bucket/dataset")
    assert job.outputs.keys() == {"training", "logs"}
    assert _flags(job).keys() == {"--experiment", "--dataset", "--workdir", "--logs"}


@pytest.mark.parametrize(
    ("output", "options", "message"),
    [
        ("runs", {}, "^output: must be gs://BUCKET/FOLDER, .* a volume. Given: runs$"),
        ("ftp://host/a", {}, "^uri: must be .* Given: ftp://host/a$"),
        ("gs://bucket", {"continue_from": "runs/a"}, "^continue_from: must be in a bucket .* Given: runs/a$"),
        ("/data", {"continue_from": "gs://bucket/a"}, "^continue_from: must be in a bucket .* Given: gs://bucket/a$"),
    ],
)
def test_unreachable_output_is_rejected(output: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        cluster_job(from_mapping({"options": options}), output, POD)


@pytest.mark.parametrize(
    ("fields", "replicas", "ignore_exit", "restart_individually"),
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
def test_job_roles_are_those_of_the_strategy(
    fields: dict[str, Any],
    replicas: dict[str, int],
    ignore_exit: tuple[str, ...],
    restart_individually: tuple[str, ...],
) -> None:
    config = from_mapping(fields)
    for job in (local_job(config, "/dataset", "/training", "/logs"), cluster_job(config, "gs://bucket", POD)):
        assert dict(job.replicas) == replicas
        assert (job.ignore_exit, job.restart_individually) == (ignore_exit, restart_individually)


def test_pool_key_depends_on_strategy_and_process_fields() -> None:
    experiments: tuple[dict[str, Any], ...] = (
        {},
        {"seed": 3},
        {"options": {"intra_threads": 2}},
        {"strategy": "mirrored", "workers": 1},
    )
    kinds = [local_job(from_mapping(fields), "/dataset", "/training", "/logs").kind for fields in experiments]
    assert kinds[0] == kinds[1]
    assert len(set(kinds)) == 3


def test_run_id_is_empty_outside_of_kfp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QCNN_RUN", raising=False)
    assert run_id() == ""
    monkeypatch.setenv("QCNN_RUN", "193e3cb6")
    assert run_id() == "193e3cb6"


@pytest.mark.parametrize(("index", "expected"), [(None, False), ("", False), ("0", False), ("1", True), ("x", False)])
def test_is_retry_requires_a_positive_index(monkeypatch: pytest.MonkeyPatch, index: str | None, expected: bool) -> None:
    monkeypatch.delenv("KFP_RETRY_INDEX", raising=False)
    if index is not None:
        monkeypatch.setenv("KFP_RETRY_INDEX", index)
    assert is_retry() is expected
