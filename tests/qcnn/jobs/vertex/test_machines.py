"""Selection of machine types, and validation of Vertex AI settings."""

from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.vertex.machines import MACHINES, CustomJobMachines, accelerator_type, machine_for, vertex_settings


def _pod(**given: Any) -> PodSettings:
    return PodSettings.model_validate({"image": "qcnn", **given})


@pytest.mark.parametrize(
    ("given", "machine"),
    [
        ({}, "n1-highmem-2"),
        ({"cpu": "500m", "memory": "1e9"}, "n1-highmem-2"),
        ({"cpu": 2, "memory": "9Gi"}, "e2-highmem-2"),
        ({"cpu": 3, "memory": "4Gi"}, "n1-standard-4"),
        ({"cpu": 4, "memory": "16Gi"}, "n1-highmem-4"),
        ({"cpu": 17, "memory": "8G"}, "c2-standard-30"),
        ({"cpu": 96, "memory": "1000Gi"}, "m1-megamem-96"),
        ({"gpus": 1, "accelerator": "nvidia-l4"}, "g2-standard-4"),
        ({"gpus": 1, "accelerator": "nvidia-l4", "cpu": 9}, "g2-standard-12"),
        ({"gpus": 2, "accelerator": "nvidia-l4"}, "g2-standard-24"),
        ({"gpus": 1, "accelerator": "nvidia-tesla-a100"}, "a2-highgpu-1g"),
        ({"gpus": 1, "accelerator": "nvidia-a100-80gb"}, "a2-ultragpu-1g"),
        ({"gpus": 8, "accelerator": "nvidia-h200-141gb"}, "a3-ultragpu-8g"),
        ({"gpus": 2, "accelerator": "nvidia-tesla-t4", "cpu": 20}, "n1-highcpu-32"),
    ],
)
def test_machine_for_returns_smallest_that_fits(given: dict[str, Any], machine: str) -> None:
    found = machine_for(_pod(**given))
    assert found.name == machine
    assert (found.accelerator, found.gpus) == (given.get("accelerator", ""), given.get("gpus", 0))


def test_machine_for_given_type_has_attached_accelerators() -> None:
    machine = machine_for(_pod(gpus=4, accelerator="nvidia-tesla-t4"), "n1-standard-16")
    assert (machine.name, machine.gpus, accelerator_type(machine)) == ("n1-standard-16", 4, "NVIDIA_TESLA_T4")


@pytest.mark.parametrize(
    ("given", "machine", "message"),
    [
        ({"cpu": 500}, "", r"^pod: must fit a Vertex AI training machine type\. Given: cpu 500, memory 2Gi$"),
        ({"gpus": 3, "accelerator": "nvidia-l4"}, "", r"^pod: must fit a Vertex AI .* Given: .*, 3 nvidia-l4$"),
        ({"gpus": 1}, "", r"^pod\.accelerator: must be set on Vertex AI if pod\.gpus is set\. Given: 1 gpus$"),
        ({}, "n9-huge", r"^pod\.vertex\.machine_type: must be a Vertex AI training machine type .* Given: n9-huge$"),
        (
            {"gpus": 1, "accelerator": "nvidia-l4"},
            "n1-standard-4",
            r"^pod\.vertex\.machine_type: must fit the requested .*1 nvidia-l4\. Given: n1-standard-4$",
        ),
        ({}, "g2-standard-4", r"^pod\.vertex\.machine_type: must fit .* Given: g2-standard-4$"),
        ({"memory": "14Gi"}, "n1-standard-4", r"^pod\.vertex\.machine_type: must fit .* Given: n1-standard-4$"),
        ({"gpus": 1, "accelerator": "nvidia-tesla-v100", "cpu": 13}, "", r"^pod: must fit a Vertex AI .* Given: "),
    ],
)
def test_machine_for_without_fitting_type_raises(given: dict[str, Any], machine: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        machine_for(_pod(**given), machine)


def test_machines_have_unique_names() -> None:
    names = [machine.name for machine in MACHINES]
    assert len(set(names)) == len(names)


ACCOUNT = "trainer@my-project.iam.gserviceaccount.com"


def _read(**given: Any) -> CustomJobMachines:
    return vertex_settings(PodSettings.model_validate({"image": "qcnn", **given}))


def test_vertex_settings_reads_all_fields_of_yaml() -> None:
    given = {
        "machine_type": "n2-standard-8",
        "service_account": ACCOUNT,
        "strategy": "FLEX_START",
        "max_wait_seconds": 0,
        "timeout_seconds": 3600,
        "boot_disk_type": "pd-ssd",
        "boot_disk_gb": 200,
        "network": "projects/12345/global/networks/training",
        "persistent_resource": "machines",
        "restart_job_on_worker_restart": True,
        "encryption_key": "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k",
        "tensorboard": "projects/1/locations/us-central1/tensorboards/2",
    }
    assert _read(vertex=given) == CustomJobMachines(**given)  # type: ignore[arg-type]  # read from YAML


def test_vertex_settings_ignores_kubernetes_service_account() -> None:
    assert _read(service_account="qcnn-worker").service_account == ""
    assert _read(service_account=ACCOUNT).service_account == ACCOUNT
    assert _read(service_account="a@b", vertex={"service_account": ACCOUNT}).service_account == ACCOUNT


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"machine_type": "N2"}, "machine_type: must be the name of a machine type such as n2-standard-8. Given: 'N2'"),
        ({"service_account": "a"}, "service_account: must be the email address of a service account. Given: 'a'"),
        ({"strategy": "SPOT"}, "strategy: must be one of STANDARD, FLEX_START. Given: 'SPOT'"),
        ({"max_wait_seconds": 1}, "max_wait_seconds: needs strategy FLEX_START. Given: 1"),
        ({"timeout_seconds": 0}, "timeout_seconds: must be an integer, at least 1. Given: 0"),
        ({"boot_disk_gb": 10}, "boot_disk_gb: must be an integer, 100 to 64000. Given: 10"),
        ({"network": "training"}, "network: must be projects/NUMBER/global/networks/NAME. Given: 'training'"),
        (
            {"network": "projects/1/global/networks/a", "network_attachment": "b"},
            "network_attachment: cannot be combined with network. Given: b",
        ),
        (
            {"tensorboard": "projects/1/locations/us-central1/tensorboards/2"},
            "tensorboard: needs a service_account. Given: projects/1/locations/us-central1/tensorboards/2",
        ),
        ({"restart_job_on_worker_restart": 1}, "restart_job_on_worker_restart: must be true or false. Given: 1"),
        (
            {"machine": "n1"},
            f"machine: unknown field; valid fields: {', '.join(CustomJobMachines.model_fields)}. Given: 'n1'",
        ),
    ],
)
def test_vertex_settings_invalid_value_raises(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        _read(vertex=given)
    assert str(error.value) == f"pod.vertex.{message}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"secrets": {"A": "b/c"}}, "pod.secrets: has no meaning on Vertex AI; read Secret Manager with "),
        ({"volumes": {"/a": {}}}, "pod.volumes: has no meaning on Vertex AI; use buckets, which are mounted at /gcs/"),
        ({"tolerations": [{"key": "a"}]}, "pod.tolerations: has no meaning on Vertex AI; use spot. Given: "),
        ({"node_selector": {"a": "b"}}, "pod.node_selector: has no meaning on Vertex AI; "),
        ({"pull_secrets": ["a"]}, "pod.pull_secrets: has no meaning on Vertex AI; "),
        ({"queue": "a"}, "pod.queue: has no meaning on Vertex AI; use vertex.strategy FLEX_START, "),
        ({"runtime": "team"}, "pod.runtime: has no meaning on Vertex AI; "),
        ({"priority_class": "high"}, "pod.priority_class: has no meaning on Vertex AI; "),
        ({"topology_spread": "zone"}, "pod.topology_spread: has no meaning on Vertex AI; "),
        ({"metrics_port": 9095}, "pod.metrics_port: has no meaning on Vertex AI; remove it, because machines accept "),
        ({"labels": {"Team": "a"}}, "pod.labels: must have at most 63 lowercase letters, "),
        ({"labels": {"team": "a.b"}}, "pod.labels: must have at most 63 lowercase letters, "),
        (
            {"spot": True, "vertex": {"strategy": "FLEX_START"}},
            "pod.spot: cannot be combined with strategy FLEX_START. Given: True",
        ),
    ],
)
def test_vertex_settings_unsupported_pod_field_raises(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        _read(**given)
    assert str(error.value).startswith(message)
