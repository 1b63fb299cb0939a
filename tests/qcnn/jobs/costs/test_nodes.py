"""What GKE leaves of a node."""

import pytest

from qcnn.jobs.costs.nodes import left_of_memory, pods_on
from qcnn.jobs.costs.prices import MachineType
from qcnn.jobs.pod import Pod, pod_settings


@pytest.mark.parametrize(("gib", "left"), [(3.75, 2.8), (7.5, 5.8), (15, 12.4), (30, 26.4), (60, 54.7), (240, 228.4)])
def test_memory_is_left_as_in_the_published_table(gib: float, left: float) -> None:
    """That of n1-standard machines in GKE's "Allocatable memory and CPU resources", before what evicts pods."""
    assert left_of_memory(gib) == pytest.approx(left, abs=0.25)


def pod(**settings: object) -> Pod:
    return pod_settings({"image": "qcnn", **settings})


FOUR = MachineType(cpus=4, memory=16, price=0.2)
EIGHT_GPUS = MachineType(cpus=96, memory=680, price=29.4, accelerator="nvidia-tesla-a100", gpus=8)


@pytest.mark.parametrize(
    ("machine", "settings", "pods"),
    [
        # The fourth core is not all free.
        (FOUR, {"cpu": "1", "memory": "1Gi"}, 3),
        (FOUR, {"cpu": "500m", "memory": "1Gi"}, 6),
        (FOUR, {"cpu": "1m", "memory": "1Mi"}, 110),
        (FOUR, {"cpu": "4", "memory": "1Gi"}, 0),
        (FOUR, {"cpu": "100m", "memory": "6Gi"}, 2),
        (FOUR, {"cpu": "1", "memory": "1Gi", "gpus": 1}, 0),
        (EIGHT_GPUS, {"cpu": "1", "memory": "1Gi", "gpus": 2}, 4),
        (EIGHT_GPUS, {"cpu": "1", "memory": "1Gi", "gpus": 2, "accelerator": "nvidia-tesla-a100"}, 4),
        (EIGHT_GPUS, {"cpu": "1", "memory": "1Gi", "gpus": 2, "accelerator": "nvidia-l4"}, 0),
    ],
)
def test_a_node_takes_as_many_pods_as_all_that_they_ask_for_allows(
    machine: MachineType, settings: dict[str, object], pods: int
) -> None:
    assert pods_on(machine, pod(**settings)) == pods
