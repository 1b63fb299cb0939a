"""Pricing of the platforms that jobs run on: machines and cost of processes with their pod settings."""

import dataclasses
import math
from collections.abc import Callable, Mapping

from qcnn.errors import ConfigError
from qcnn.jobs.accelerators import ACCELERATORS, Accelerator
from qcnn.jobs.pod_settings import PodSettings, parse_quantity
from qcnn.jobs.pricing import CostEstimate, Prices, estimate_node_cost, total_cost
from qcnn.jobs.vertex.machines import estimate_vm_cost, machine_for, vertex_settings
from qcnn.process.roles import ROLES, WORKER


@dataclasses.dataclass(frozen=True)
class PricingPlatform:
    """Platform of a job: cores and bytes of memory of each worker, and its pricing.

    `bill` estimates the cost of a number of processes by role, for a duration in seconds. `gpus` is the number of GPUs
    of each worker, and `accelerator` has their rates, or is None if the model is unknown.
    """

    cores: float
    memory: float
    bill: Callable[[Mapping[str, int], float], CostEstimate]
    gpus: int = 0
    accelerator: Accelerator | None = None


def on_kubernetes(pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
    """Return the pricing of a cluster that adds and removes nodes with the pods.

    Args:
        pod: Settings of the training pods.
        prices: Price list.
        machine_type: Machine type of the nodes. Empty: the cheapest that fits.

    Raises:
        ConfigError: If a pod requests no CPU or memory, or an infinite amount.
    """
    for role in ROLES:
        for_role = pod.for_role(role)
        for name, quantity in (("cpu", for_role.cpu), ("memory", for_role.memory)):
            if not 0 < parse_quantity(quantity) < math.inf:
                raise ConfigError(f"pod.{name}: must be above 0 and finite to be estimated. Given: {quantity}")

    def estimate(pods: int, of_pods: PodSettings, seconds: float) -> CostEstimate:
        return estimate_node_cost(pods, of_pods, seconds, prices, machine_type)

    return _platform(pod, parse_quantity(pod.for_role(WORKER).cpu), estimate)


def on_vertex(pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
    """Return the pricing of Vertex AI, which runs each process on a dedicated VM.

    Args:
        pod: Settings of the training processes.
        prices: Price list.
        machine_type: Machine type of the VMs. Empty: the smallest that fits.

    Raises:
        ConfigError: If a setting is not valid on Vertex AI, or no machine type fits.
    """
    if machine_type:
        pod = pod.model_copy(update={"vertex": {**pod.vertex, "machine_type": machine_type}})
    machine = machine_for(pod.for_role(WORKER), vertex_settings(pod).machine_type)

    def estimate(processes: int, of_processes: PodSettings, seconds: float) -> CostEstimate:
        return estimate_vm_cost(processes, of_processes, seconds, prices)

    return _platform(pod, float(machine.cpus), estimate)


def _platform(
    pod: PodSettings, cores: float, estimate: Callable[[int, PodSettings, float], CostEstimate]
) -> PricingPlatform:
    """Return a platform from the cores of a worker, and the cost of a number of processes with equal settings."""
    worker = pod.for_role(WORKER)
    return PricingPlatform(
        cores,
        parse_quantity(worker.memory),
        lambda replicas, seconds: total_cost(
            [estimate(processes, settings, seconds) for settings, processes in _count_by_settings(pod, replicas)]
        ),
        worker.gpus,
        ACCELERATORS.get(worker.accelerator),
    )


def _count_by_settings(pod: PodSettings, replicas: Mapping[str, int]) -> list[tuple[PodSettings, int]]:
    """Return distinct settings of processes, each with its number of processes of any role."""
    of_roles = [(pod.for_role(role), count) for role, count in replicas.items() if count]
    return [
        (settings, sum(count for other, count in of_roles if other == settings))
        for position, (settings, _) in enumerate(of_roles)
        if settings not in [other for other, _ in of_roles[:position]]
    ]
