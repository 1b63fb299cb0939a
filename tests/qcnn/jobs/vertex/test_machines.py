"""Which machine a process gets for what it asks for."""

from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.pod_settings import Pod
from qcnn.jobs.vertex.machines import MACHINES, accelerator_type, machine_for


def _pod(**given: Any) -> Pod:
    return Pod.model_validate({"image": "qcnn", **given})


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
def test_the_smallest_machine_that_has_it_is_taken(given: dict[str, Any], machine: str) -> None:
    found = machine_for(_pod(**given))
    assert found.name == machine
    assert (found.accelerator, found.gpus) == (given.get("accelerator", ""), given.get("gpus", 0))


def test_a_machine_that_is_named_is_taken_with_what_is_attached_to_it() -> None:
    machine = machine_for(_pod(gpus=4, accelerator="nvidia-tesla-t4"), "n1-standard-16")
    assert (machine.name, machine.gpus, accelerator_type(machine)) == ("n1-standard-16", 4, "NVIDIA_TESLA_T4")


@pytest.mark.parametrize(
    ("given", "machine", "said"),
    [
        (
            {"cpu": 500},
            "",
            r"^pod: no machine type of Vertex AI .* what is asked for\. Given: cpu 500, memory 2Gi$",
        ),
        ({"gpus": 3, "accelerator": "nvidia-l4"}, "", r"^pod: no machine type .* Given: .*, 3 nvidia-l4$"),
        ({"gpus": 1}, "", r"^pod\.accelerator: must be named on Vertex AI where gpus are asked for\. Given: 1 gpus$"),
        ({}, "n9-huge", r"^pod\.vertex\.machine_type: must be of those .* Given: n9-huge$"),
        (
            {"gpus": 1, "accelerator": "nvidia-l4"},
            "n1-standard-4",
            r"^pod\.vertex\.machine_type: has not what is asked for \(.*1 nvidia-l4\)\. Given: n1-standard-4$",
        ),
        ({}, "g2-standard-4", r"^pod\.vertex\.machine_type: has not .* Given: g2-standard-4$"),
        ({"memory": "14Gi"}, "n1-standard-4", r"^pod\.vertex\.machine_type: has not .* Given: n1-standard-4$"),
        ({"gpus": 1, "accelerator": "nvidia-tesla-v100", "cpu": 13}, "", r"^pod: no machine type .* Given: "),
    ],
)
def test_what_no_machine_has_is_one_line(given: dict[str, Any], machine: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        machine_for(_pod(**given), machine)


def test_no_machine_is_listed_twice() -> None:
    names = [machine.name for machine in MACHINES]
    assert len(set(names)) == len(names)
