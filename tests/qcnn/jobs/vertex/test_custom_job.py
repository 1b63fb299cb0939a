"""Conversion of a training job to a CustomJob, whose message type rejects unknown fields."""

import dataclasses
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.pod_settings import PodSettings, pod_settings
from qcnn.jobs.vertex.client import aiplatform
from qcnn.jobs.vertex.custom_job import JOB_LABEL, SPEC_LABEL, custom_job, outputs
from qcnn.jobs.vertex.location import VertexLocation

PLACE = VertexLocation("my-project", "us-central1")
RUN = JobIdentity("qcnn-2026", "train")
OUTPUTS = {name: f"gs://bucket/run/$(QCNN_JOB)/{name}" for name in ("training", "logs")}
JOB = JobSpec(
    argv=("python", "-m", "qcnn.trainer.worker", "--workdir", OUTPUTS["training"]),
    replicas={"worker": 3},
    restarts=2,
    heartbeat_timeout_seconds=60,
    pod=PodSettings(image=f"registry/qcnn@sha256:{64 * '0'}", environment={"A": "1"}),
    outputs=OUTPUTS,
)


def _job_with_pod(**settings: Any) -> JobSpec:
    return dataclasses.replace(JOB, pod=PodSettings.model_validate({"image": "qcnn", **settings}))


def _pools(job: JobSpec) -> list[tuple[str, int]]:
    pools = custom_job(job, RUN, PLACE).job_spec.worker_pool_specs
    return [(pool.machine_spec.machine_type, pool.replica_count) for pool in pools]


@pytest.mark.parametrize(
    ("replicas", "counts"),
    [
        ({"worker": 1}, [1]),
        ({"worker": 3}, [1, 2]),
        ({"chief": 1, "worker": 2}, [1, 2]),
        ({"chief": 1}, [1]),
        ({"worker": 1, "ps": 2}, [1, 0, 2]),
        ({"worker": 2, "evaluator": 1}, [1, 1, 0, 1]),
        ({"chief": 1, "worker": 2, "ps": 3, "evaluator": 1}, [1, 2, 3, 1]),
    ],
)
def test_custom_job_unused_pools_are_empty_or_omitted(replicas: dict[str, int], counts: list[int]) -> None:
    pools = _pools(dataclasses.replace(JOB, replicas=replicas))
    assert [count for _, count in pools] == counts
    assert all(bool(machine) == bool(count) for machine, count in pools)


@pytest.mark.parametrize(
    ("replicas", "machines"),
    [
        ({"chief": 1, "worker": 2}, ["n1-highcpu-16", "n1-highmem-2"]),
        # The first worker is in the chief's pool with the machine type of a worker.
        ({"worker": 3}, ["n1-highmem-2", "n1-highmem-2"]),
        ({"chief": 1, "worker": 1, "ps": 1}, ["n1-highcpu-16", "n1-highmem-2", "n1-highmem-4"]),
    ],
    ids=str,
)
def test_custom_job_machine_types_depend_on_role(replicas: dict[str, int], machines: list[str]) -> None:
    job = dataclasses.replace(_job_with_pod(roles={"chief": {"cpu": 16}, "ps": {"memory": "12Gi"}}), replicas=replicas)
    assert [machine for machine, _ in _pools(job)] == machines


def test_custom_job_contains_command_and_output_folder() -> None:
    job = custom_job(JOB, RUN, PLACE)
    label = job.labels[JOB_LABEL]
    first = job.job_spec.worker_pool_specs[0].container_spec
    assert list(first.command) == [
        "python",
        "-m",
        "qcnn.trainer.worker",
        "--workdir",
        f"gs://bucket/run/{label}/training",
    ]
    environment = {variable.name: variable.value for variable in first.env}
    image = f"registry/qcnn@sha256:{64 * '0'}"
    assert environment == {"A": "1", "QCNN_IMAGE": image, "QCNN_JOB": label, "QCNN_RUN": "qcnn-2026"}
    assert first.image_uri == image
    assert job.job_spec.base_output_directory.output_uri_prefix == f"gs://bucket/run/{label}"
    assert outputs(JOB, job)["logs"] == f"gs://bucket/run/{label}/logs"


def test_custom_job_roles_with_gpus_use_gpu_image() -> None:
    roles = {"ps": {"gpus": 0}, "evaluator": {"gpus": 0}}
    pod = pod_settings({"image": "registry/qcnn:1", "accelerator": "nvidia-l4", "roles": roles})
    job = custom_job(dataclasses.replace(JOB, pod=pod, replicas={"chief": 1, "worker": 1, "ps": 1}), RUN, PLACE)
    images = [pool.container_spec.image_uri for pool in job.job_spec.worker_pool_specs]
    assert images == ["registry/qcnn:1-gpu", "registry/qcnn:1-gpu", "registry/qcnn:1"]
    for pool in job.job_spec.worker_pool_specs:
        environment = {variable.name: variable.value for variable in pool.container_spec.env}
        assert environment["QCNN_IMAGE"] == pool.container_spec.image_uri


def test_custom_job_mounted_output_becomes_bucket_uri() -> None:
    mounted = dataclasses.replace(JOB, outputs={"training": "/gcs/bucket/$(QCNN_JOB)/training"})
    job = custom_job(mounted, RUN, PLACE)
    assert job.job_spec.base_output_directory.output_uri_prefix == f"gs://bucket/{job.labels[JOB_LABEL]}"


def test_custom_job_labels_depend_on_run_and_settings() -> None:
    """Another training run changes JOB_LABEL, other settings only SPEC_LABEL."""
    first = custom_job(JOB, RUN, PLACE)
    changed = [
        (dataclasses.replace(JOB, argv=("python", "other.py")), RUN),
        (dataclasses.replace(JOB, replicas={"worker": 2}), RUN),
        (JOB, dataclasses.replace(RUN, run="another")),
        (JOB, dataclasses.replace(RUN, iteration=1)),
    ]
    labels = {custom_job(job, identity, PLACE).labels[JOB_LABEL] for job, identity in changed}
    assert len({*labels, first.labels[JOB_LABEL]}) == len(changed) + 1
    for job in (_job_with_pod(memory="32Gi"), _job_with_pod(spot=True), dataclasses.replace(JOB, restarts=0)):
        other = custom_job(job, RUN, PLACE)
        assert other.labels[JOB_LABEL] == first.labels[JOB_LABEL]
        assert other.labels[SPEC_LABEL] != first.labels[SPEC_LABEL]
    assert custom_job(JOB, RUN, PLACE) == first


def test_custom_job_labels_are_valid_on_google_cloud() -> None:
    job = custom_job(_job_with_pod(labels={"team": "physics"}), JobIdentity("Lauf 1: 量子" * 9, "train"), PLACE)
    assert job.labels["team"] == "physics"
    for text in (*job.labels.keys(), *job.labels.values()):
        assert len(text) <= 63
        assert text.isascii()
        assert text.lower() == text


def test_custom_job_contains_all_vertex_settings() -> None:
    job = _job_with_pod(
        gpus=1,
        accelerator="nvidia-l4",
        service_account="trainer@my-project.iam.gserviceaccount.com",
        vertex={
            "strategy": "FLEX_START",
            "max_wait_seconds": 7200,
            "timeout_seconds": 3600,
            "boot_disk_type": "pd-standard",
            "boot_disk_gb": 200,
            "network_attachment": "attached",
            "persistent_resource": "machines",
            "encryption_key": "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k",
            "tensorboard": "projects/1/locations/us-central1/tensorboards/2",
        },
    )
    vertex_job = custom_job(job, RUN, PLACE)
    pool, scheduling = vertex_job.job_spec.worker_pool_specs[1], vertex_job.job_spec.scheduling
    assert pool.machine_spec.machine_type == "g2-standard-4"
    assert pool.machine_spec.accelerator_type is aiplatform.AcceleratorType.NVIDIA_L4
    assert pool.machine_spec.accelerator_count == 1
    assert {each.name: each.value for each in pool.container_spec.env}["QCNN_GPUS"] == "1"
    plain = custom_job(_job_with_pod(), RUN, PLACE).job_spec.worker_pool_specs[1]
    assert "QCNN_GPUS" not in {each.name for each in plain.container_spec.env}
    assert (pool.disk_spec.boot_disk_type, pool.disk_spec.boot_disk_size_gb) == ("pd-standard", 200)
    assert scheduling.strategy is aiplatform.Scheduling.Strategy.FLEX_START
    assert scheduling.max_wait_duration.total_seconds() == 7200
    assert scheduling.timeout.total_seconds() == 3600
    spec = vertex_job.job_spec
    assert spec.psc_interface_config.network_attachment == "attached"
    assert (spec.persistent_resource_id, spec.service_account) == (
        "machines",
        "trainer@my-project.iam.gserviceaccount.com",
    )
    assert spec.tensorboard.endswith("/tensorboards/2")
    assert vertex_job.encryption_spec.kms_key_name.endswith("/cryptoKeys/k")


def test_custom_job_scheduling_has_spot_and_retries() -> None:
    scheduling = custom_job(_job_with_pod(spot=True), RUN, PLACE).job_spec.scheduling
    assert scheduling.strategy is aiplatform.Scheduling.Strategy.SPOT
    assert not scheduling.disable_retries
    once = dataclasses.replace(JOB, restarts=0)
    assert custom_job(once, RUN, PLACE).job_spec.scheduling.disable_retries
    assert not custom_job(once, RUN, PLACE).job_spec.scheduling.restart_job_on_worker_restart


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pod": None}, r"^pod: a job on Vertex AI needs an image\. Given: none$"),
        ({"replicas": {"ps": 1}}, r"^replicas: must be of chief, worker, ps, evaluator, .* Given: \{'ps': 1\}$"),
        ({"replicas": {"worker": 1, "master": 1}}, r"^replicas: must be of chief, "),
        (
            {"outputs": {"training": "s3://bucket/training"}},
            r"^output: must be in a bucket of Cloud Storage, .* Given: s3://bucket$",
        ),
        (
            {
                "pod": PodSettings(
                    image="a", vertex={"encryption_key": "projects/p/locations/eu/keyRings/r/cryptoKeys/k"}
                )
            },
            r"^pod\.vertex\.encryption_key: must be in the job's location, us-central1\. Given: ",
        ),
    ],
)
def test_custom_job_invalid_job_raises(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        custom_job(dataclasses.replace(JOB, **changes), RUN, PLACE)
