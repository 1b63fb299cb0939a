"""A training job as Google's own message; an unknown field would be refused by its type."""

import dataclasses
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.job import Job, JobIdentity
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.vertex.client import aiplatform
from qcnn.jobs.vertex.custom_job import JOB_LABEL, SPEC_LABEL, custom_job, outputs
from qcnn.jobs.vertex.location import VertexLocation

PLACE = VertexLocation("my-project", "us-central1")
RUN = JobIdentity("qcnn-2026", "train")
OUTPUTS = {name: f"gs://bucket/run/$(QCNN_JOB)/{name}" for name in ("training", "logs")}
JOB = Job(
    argv=("python", "-m", "qcnn.trainer.worker", "--workdir", OUTPUTS["training"]),
    replicas={"worker": 3},
    restarts=2,
    heartbeat_timeout_seconds=60,
    pod=PodSettings(image=f"registry/qcnn@sha256:{64 * '0'}", environment={"A": "1"}),
    outputs=OUTPUTS,
)


def _given(**given: Any) -> Job:
    return dataclasses.replace(JOB, pod=PodSettings.model_validate({"image": "qcnn", **given}))


def _pools(job: Job) -> list[tuple[str, int]]:
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
def test_every_role_has_its_pool_and_what_is_not_used_is_empty_or_left_out(
    replicas: dict[str, int], counts: list[int]
) -> None:
    pools = _pools(dataclasses.replace(JOB, replicas=replicas))
    assert [count for _, count in pools] == counts
    assert all(bool(machine) == bool(count) for machine, count in pools)


@pytest.mark.parametrize(
    ("replicas", "machines"),
    [
        ({"chief": 1, "worker": 2}, ["n1-highcpu-16", "n1-highmem-2"]),
        # The first worker is called the chief, and is a worker.
        ({"worker": 3}, ["n1-highmem-2", "n1-highmem-2"]),
        ({"chief": 1, "worker": 1, "ps": 1}, ["n1-highcpu-16", "n1-highmem-2", "n1-highmem-4"]),
    ],
    ids=str,
)
def test_each_role_has_machines_of_its_own(replicas: dict[str, int], machines: list[str]) -> None:
    job = dataclasses.replace(_given(roles={"chief": {"cpu": 16}, "ps": {"memory": "12Gi"}}), replicas=replicas)
    assert [machine for machine, _ in _pools(job)] == machines


def test_processes_run_the_command_and_write_where_every_job_of_the_training_does() -> None:
    made = custom_job(JOB, RUN, PLACE)
    label = made.labels[JOB_LABEL]
    first = made.job_spec.worker_pool_specs[0].container_spec
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
    assert made.job_spec.base_output_directory.output_uri_prefix == f"gs://bucket/run/{label}"
    assert outputs(JOB, made)["logs"] == f"gs://bucket/run/{label}/logs"


def test_outputs_in_a_mounted_bucket_are_named_as_the_service_takes_them() -> None:
    job = dataclasses.replace(JOB, outputs={"training": "/gcs/bucket/$(QCNN_JOB)/training"})
    made = custom_job(job, RUN, PLACE)
    assert made.job_spec.base_output_directory.output_uri_prefix == f"gs://bucket/{made.labels[JOB_LABEL]}"


def test_every_difference_in_what_is_trained_has_another_label_and_in_what_is_given_another_hash() -> None:
    first = custom_job(JOB, RUN, PLACE)
    trained = [
        (dataclasses.replace(JOB, argv=("python", "other.py")), RUN),
        (dataclasses.replace(JOB, replicas={"worker": 2}), RUN),
        (JOB, dataclasses.replace(RUN, run="another")),
        (JOB, dataclasses.replace(RUN, iteration=1)),
    ]
    labels = {custom_job(job, identity, PLACE).labels[JOB_LABEL] for job, identity in trained}
    assert len({*labels, first.labels[JOB_LABEL]}) == len(trained) + 1
    for job in (_given(memory="32Gi"), _given(spot=True), dataclasses.replace(JOB, restarts=0)):
        other = custom_job(job, RUN, PLACE)
        assert other.labels[JOB_LABEL] == first.labels[JOB_LABEL]
        assert other.labels[SPEC_LABEL] != first.labels[SPEC_LABEL]
    assert custom_job(JOB, RUN, PLACE) == first


def test_labels_are_what_google_takes() -> None:
    made = custom_job(_given(labels={"team": "physics"}), JobIdentity("Lauf 1: 量子" * 9, "train"), PLACE)
    assert made.labels["team"] == "physics"
    for text in (*made.labels.keys(), *made.labels.values()):
        assert len(text) <= 63
        assert text.isascii()
        assert text.lower() == text


def test_machines_accelerators_and_scheduling_are_as_asked_for() -> None:
    job = _given(
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
    made = custom_job(job, RUN, PLACE)
    pool, scheduling = made.job_spec.worker_pool_specs[1], made.job_spec.scheduling
    assert pool.machine_spec.machine_type == "g2-standard-4"
    assert pool.machine_spec.accelerator_type is aiplatform.AcceleratorType.NVIDIA_L4
    assert pool.machine_spec.accelerator_count == 1
    assert {each.name: each.value for each in pool.container_spec.env}["QCNN_GPUS"] == "1"
    plain = custom_job(_given(), RUN, PLACE).job_spec.worker_pool_specs[1]
    assert "QCNN_GPUS" not in {each.name for each in plain.container_spec.env}
    assert (pool.disk_spec.boot_disk_type, pool.disk_spec.boot_disk_size_gb) == ("pd-standard", 200)
    assert scheduling.strategy is aiplatform.Scheduling.Strategy.FLEX_START
    assert scheduling.max_wait_duration.total_seconds() == 7200
    assert scheduling.timeout.total_seconds() == 3600
    spec = made.job_spec
    assert spec.psc_interface_config.network_attachment == "attached"
    assert (spec.persistent_resource_id, spec.service_account) == (
        "machines",
        "trainer@my-project.iam.gserviceaccount.com",
    )
    assert spec.tensorboard.endswith("/tensorboards/2")
    assert made.encryption_spec.kms_key_name.endswith("/cryptoKeys/k")


def test_spot_machines_and_whether_vertex_starts_a_job_again_by_itself() -> None:
    scheduling = custom_job(_given(spot=True), RUN, PLACE).job_spec.scheduling
    assert scheduling.strategy is aiplatform.Scheduling.Strategy.SPOT
    assert not scheduling.disable_retries
    once = dataclasses.replace(JOB, restarts=0)
    assert custom_job(once, RUN, PLACE).job_spec.scheduling.disable_retries
    assert not custom_job(once, RUN, PLACE).job_spec.scheduling.restart_job_on_worker_restart


@pytest.mark.parametrize(
    ("changes", "said"),
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
def test_what_cannot_be_a_custom_job_is_one_line(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        custom_job(dataclasses.replace(JOB, **changes), RUN, PLACE)
