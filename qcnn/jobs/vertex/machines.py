"""Which machine type of Vertex AI training fits what a process is to be given.

Machine types and how many GPUs each can have: "Configure compute resources for custom training"
(cloud.google.com/vertex-ai/docs/training/configure-compute), sizes as in Compute Engine's machine families; 2026-11.
"""

import dataclasses

from qcnn.errors import ConfigError
from qcnn.jobs.pod_settings import Pod, amount, on_vertex
from qcnn.jobs.pricing import Bill, Prices, bill, left_of_memory
from qcnn.jobs.vertex.settings import vertex_settings


@dataclasses.dataclass(frozen=True)
class Machine:
    """A machine type with its vCPUs, its memory in GiB, and the accelerators that it always has."""

    name: str
    cpus: int
    memory: float
    accelerator: str = ""
    gpus: int = 0

    @property
    def family(self) -> str:
        """The part of the name before the first hyphen."""
        return self.name.partition("-")[0]


def _series(prefix: str, cpus: tuple[int, ...], memory_per_cpu: float) -> list[Machine]:
    return [Machine(f"{prefix}-{count}", count, count * memory_per_cpu) for count in cpus]


_A100, _A100_80, _L4 = "nvidia-tesla-a100", "nvidia-a100-80gb", "nvidia-l4"
_H100, _H100_MEGA, _H200, _B200 = "nvidia-h100-80gb", "nvidia-h100-mega-80gb", "nvidia-h200-141gb", "nvidia-b200"
_N1, _N2 = (4, 8, 16, 32, 64, 96), (4, 8, 16, 32, 48, 64, 80)
MACHINES = (
    *_series("e2-standard", (4, 8, 16, 32), 4),
    *_series("e2-highmem", (2, 4, 8, 16), 8),
    *_series("e2-highcpu", (16, 32), 1),
    *_series("n2-standard", _N2, 4),
    *_series("n2-highmem", (2, *_N2), 8),
    *_series("n2-highcpu", _N2[2:], 1),
    *_series("n1-standard", _N1, 3.75),
    *_series("n1-highmem", (2, *_N1), 6.5),
    *_series("n1-highcpu", _N1[2:], 0.9),
    *_series("c2-standard", (4, 8, 16, 30, 60), 4),
    Machine("m1-megamem-96", 96, 1433.6),
    Machine("m1-ultramem-40", 40, 961),
    Machine("m1-ultramem-80", 80, 1922),
    Machine("m1-ultramem-160", 160, 3844),
    *(Machine(f"g2-standard-{cpus}", cpus, 4 * cpus, _L4, 1) for cpus in (4, 8, 12, 16, 32)),
    *(Machine(f"g2-standard-{cpus}", cpus, 4 * cpus, _L4, gpus) for cpus, gpus in ((24, 2), (48, 4), (96, 8))),
    *(Machine(f"a2-highgpu-{gpus}g", 12 * gpus, 85 * gpus, _A100, gpus) for gpus in (1, 2, 4, 8)),
    Machine("a2-megagpu-16g", 96, 1360, _A100, 16),
    *(Machine(f"a2-ultragpu-{gpus}g", 12 * gpus, 170 * gpus, _A100_80, gpus) for gpus in (1, 2, 4, 8)),
    *(Machine(f"a3-highgpu-{gpus}g", 26 * gpus, 234 * gpus, _H100, gpus) for gpus in (1, 2, 4, 8)),
    Machine("a3-megagpu-8g", 208, 1872, _H100_MEGA, 8),
    Machine("a3-ultragpu-8g", 224, 2952, _H200, 8),
    Machine("a4-highgpu-8g", 224, 3968, _B200, 8),
)
# Accelerators that are attached to an n1 machine: how many, and the most vCPUs for each.
_ATTACHED = {
    "nvidia-tesla-t4": ((1, 2, 4), 24),
    "nvidia-tesla-p4": ((1, 2, 4), 24),
    "nvidia-tesla-p100": ((1, 2, 4), 16),
    "nvidia-tesla-v100": ((1, 2, 4, 8), 12),
}
_GIB = 1024.0**3
# What Vertex AI's own agents take of a node, in GiB, so that they and GKE together have the 40 % of an n1-standard-4
# that Google names ("Understand the custom training service").
_AGENTS = 3.5


def machine_for(pod: Pod, machine_type: str = "") -> Machine:
    """Return the smallest machine with what a pod asks for, with that many GPUs; or the one that is named, checked.

    The smallest has the fewest vCPUs, among those the least memory.

    Raises:
        ConfigError: none has it, or it is not known.
    """
    if pod.gpus and not pod.accelerator:
        raise ConfigError(
            f"pod.accelerator: must be named on Vertex AI where gpus are asked for. Given: {pod.gpus} gpus"
        )
    if machine_type and machine_type not in {machine.name for machine in MACHINES}:
        families = ", ".join(dict.fromkeys(machine.family for machine in MACHINES))
        raise ConfigError(
            f"pod.vertex.machine_type: must be of those that Vertex AI trains on (families {families}). "
            f"Given: {machine_type}"
        )
    fitting = [machine for machine in MACHINES if _fits(pod, machine) and machine_type in ("", machine.name)]
    if not fitting:
        asked = f"cpu {pod.cpu}, memory {pod.memory}" + (f", {pod.gpus} {pod.accelerator}" if pod.gpus else "")
        if machine_type:
            raise ConfigError(f"pod.vertex.machine_type: has not what is asked for ({asked}). Given: {machine_type}")
        raise ConfigError(f"pod: no machine type of Vertex AI training has what is asked for. Given: {asked}")
    found = min(fitting, key=lambda machine: (machine.cpus, machine.memory))
    return dataclasses.replace(found, accelerator=pod.accelerator, gpus=pod.gpus)


def check_machines(pod: Pod, machine_type: str = "") -> None:
    """Refuse settings with which there is no machine for workers, or for a role that has resources of its own.

    Raises:
        ConfigError: as `machine_for`.
    """
    for role in dict.fromkeys(("worker", *pod.roles)):
        machine_for(pod.of_role(role), machine_type)


def accelerator_type(machine: Machine) -> str:
    """Return the name that Vertex AI has for a machine's accelerator."""
    return on_vertex(machine.accelerator)


def _fits(pod: Pod, machine: Machine) -> bool:
    if pod.accelerator in _ATTACHED:
        counts, most = _ATTACHED[pod.accelerator]
        fits = machine.family == "n1" and pod.gpus in counts and machine.cpus <= most * pod.gpus
    else:
        fits = (machine.accelerator, machine.gpus) == (pod.accelerator, pod.gpus)
    return fits and machine.cpus >= amount(pod.cpu) and _free_memory(machine) >= amount(pod.memory) / _GIB


def _free_memory(machine: Machine) -> float:
    """Return what of a machine's memory, in GiB, is left for a process."""
    return left_of_memory(machine.memory) - _AGENTS


def bill_of_machines(processes: int, pod: Pod, seconds: float, prices: Prices) -> Bill:
    """Return the bill for as many machines, of the type that a custom job would have, for so many seconds.

    The storage of its disks is not in it, and on a persistent resource nothing of it is charged anew.

    Raises:
        ConfigError: no machine has what is asked for, or its price is not known.
    """
    machine = machine_for(pod, vertex_settings(pod).machine_type)
    priced = prices.machines.get(machine.name)
    if priced is None or (priced.accelerator, priced.gpus) != (machine.accelerator, machine.gpus):
        gpus = f" with {machine.gpus} {machine.accelerator}" if machine.gpus else ""
        raise ConfigError(f"prices: must have the machine that the job would run on. Given: no {machine.name}{gpus}")
    return bill(machine.name, priced, processes, seconds, prices.vertex_factor)
