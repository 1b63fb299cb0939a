"""How much of a Kubernetes node's machine is left for the pods of a job.

"Plan GKE Standard node sizes" (cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes): what GKE keeps of a
node's memory and CPU. What its own agents ask for is no fixed number: half a core and half a GiB are kept for them.
"""

from qcnn.jobs.costs.prices import MachineType
from qcnn.jobs.pod import Pod, amount

_GIB = 1024.0**3
# Shares of the first, second, ... part of a machine, each of a size in GiB.
_MEMORY_KEPT = ((4.0, 0.25), (4.0, 0.20), (8.0, 0.10), (112.0, 0.06), (float("inf"), 0.02))
# Of the first core, the second, the next two, and all others.
_CPUS_KEPT = ((1.0, 0.06), (1.0, 0.01), (2.0, 0.005), (float("inf"), 0.0025))
_AGENTS_CPUS, _AGENTS_MEMORY = 0.5, 0.5
# The most pods that a node of GKE runs, unless its cluster was made for another number.
_MOST_PODS = 110


def left_of_memory(gib: float) -> float:
    """Return what GKE leaves of a machine's memory, in GiB, for pods; its own agents are among them."""
    return gib - _kept(gib, _MEMORY_KEPT)


def pods_on(machine: MachineType, pod: Pod) -> int:
    """Return how many such pods a node has room for, by what they ask for; 0 if it has not even for one."""
    room = [
        (machine.cpus - _kept(machine.cpus, _CPUS_KEPT) - _AGENTS_CPUS) / amount(pod.cpu),
        (left_of_memory(machine.memory) - _AGENTS_MEMORY) / (amount(pod.memory) / _GIB),
    ]
    if pod.gpus:
        room.append(machine.gpus / pod.gpus if machine.accelerator == pod.accelerator or not pod.accelerator else 0)
    return max(0, int(min(*room, _MOST_PODS)))


def _kept(size: float, shares: tuple[tuple[float, float], ...]) -> float:
    kept = 0.0
    for part, share in shares:
        kept += min(part, size) * share
        size = max(0.0, size - part)
    return kept
