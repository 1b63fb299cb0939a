"""What a training takes on a platform by the number of its workers: seconds, machines and money, before it runs."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import psutil

from qcnn.errors import ConfigError
from qcnn.experiment import ExperimentConfig
from qcnn.jobs.pod_settings import PodSettings, amount
from qcnn.jobs.pricing import CostEstimate, Prices, estimate_node_cost, total_cost
from qcnn.jobs.vertex.machines import estimate_vm_cost, machine_for, vertex_settings
from qcnn.model.history import epochs_left
from qcnn.planning.machine import MachineProfile
from qcnn.planning.plan import Counts, predict, process_bytes, with_synchronous_workers
from qcnn.planning.training_estimate import WRITING_SECONDS, paying_workers
from qcnn.requirements import ROLES, STRATEGIES

# From the start of a process to its first step, and from its last step to its end: imports, tracing, compiling, the
# last checkpoint. Of `make run` (python -m benchmarks.wait), rounded up.
START_SECONDS = 15.0
# Nobody needs another machine for a training that takes no longer than this.
_SHORT_SECONDS = 900.0


@dataclasses.dataclass(frozen=True)
class PricingPlatform:
    """Where a job runs: the cores and bytes of memory of each worker, and the bill for processes for so many seconds.

    The processes are those of each role, by how many there are.
    """

    cores: float
    memory: float
    bill: Callable[[Mapping[str, int], float], CostEstimate]


@dataclasses.dataclass(frozen=True)
class ScalingOption:
    """A training on so many workers: seconds of an epoch and of all, the bill, and whether a process has the memory."""

    workers: int
    epoch_seconds: float
    seconds: float
    bill: CostEstimate
    fits: bool


@dataclasses.dataclass(frozen=True)
class ScalingOptions:
    """A training as it is asked for, and all that were compared, in the order of their workers.

    With the cores of each process, and whether it is to run on Spot machines.
    """

    asked: ScalingOption
    compared: Sequence[ScalingOption]
    cores: float
    spot: bool

    @property
    def cheapest(self) -> ScalingOption:
        """The one that costs least; of equal ones the fastest."""
        return min(self._able, key=lambda way: (way.bill.charged(self.spot), way.seconds))

    @property
    def fastest(self) -> ScalingOption:
        """The one with the fewest workers of those that take about the least time."""
        seconds = {way.workers: way.seconds for way in self._able}
        return next(way for way in self._able if way.workers == paying_workers(seconds))

    @property
    def _able(self) -> Sequence[ScalingOption]:
        return [way for way in self.compared if way.fits] or self.compared


def on_kubernetes(pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
    """Return a cluster whose nodes come and go with the pods, of the type that is named or of the cheapest.

    Raises:
        ConfigError: pods ask for nothing, or for more than there is.
    """
    for role in ROLES:
        for_role = pod.for_role(role)
        for name, quantity in (("cpu", for_role.cpu), ("memory", for_role.memory)):
            if not 0 < amount(quantity) < math.inf:
                raise ConfigError(f"pod.{name}: must be above 0 and finite to be estimated. Given: {quantity}")
    worker = pod.for_role("worker")
    return PricingPlatform(
        amount(worker.cpu),
        amount(worker.memory),
        lambda replicas, seconds: total_cost(
            [estimate_node_cost(pods, alike, seconds, prices, machine_type) for alike, pods in _alike(pod, replicas)]
        ),
    )


def on_vertex(pod: PodSettings, prices: Prices, machine_type: str = "") -> PricingPlatform:
    """Return Vertex AI, which gives each process a machine of its own, of the type that is named or of the smallest.

    Raises:
        ConfigError: a setting of the pod is wrong there, or no machine has what it asks for.
    """
    if machine_type:
        pod = pod.model_copy(update={"vertex": {**pod.vertex, "machine_type": machine_type}})
    worker = pod.for_role("worker")
    machine = machine_for(worker, vertex_settings(pod).machine_type)
    return PricingPlatform(
        float(machine.cpus),
        amount(worker.memory),
        lambda replicas, seconds: total_cost(
            [estimate_vm_cost(processes, alike, seconds, prices) for alike, processes in _alike(pod, replicas)]
        ),
    )


def compare_worker_counts(
    config: ExperimentConfig, counts: Counts, platform: PricingPlatform, machine: MachineProfile, spot: bool
) -> ScalingOptions:
    """Return what a training takes with other numbers of workers and as it is asked for.

    On processes of the platform's number of cores, each like those of `machine`. Workers are compared where they are
    in step: these end with the same weights.

    Raises:
        ConfigError: no machine has what a process asks for, or its price is not known.
    """
    there = machine.with_cores(platform.cores)
    seconds = predict(config, counts, there)
    asked = _way(config, seconds.chosen, counts.chosen.cost.memory, platform)
    compared = {asked.workers: asked}
    needs = STRATEGIES[config.strategy]
    if needs.in_step and not needs.devices:
        for workers, epoch_seconds in seconds.by_workers.items():
            shared = with_synchronous_workers(config, workers)
            memory = counts.by_workers[workers].cost.memory
            compared.setdefault(workers, _way(shared, epoch_seconds, memory, platform))
    return ScalingOptions(asked, [compared[workers] for workers in sorted(compared)], platform.cores, spot)


def seconds_of_all(config: ExperimentConfig, epoch_seconds: float) -> float:
    """Return what a training takes from its start to its end, of the seconds of an epoch."""
    return START_SECONDS + (epoch_seconds + WRITING_SECONDS) * epochs_left(config)


def local_is_sufficient(seconds: float, memory: float, ways: ScalingOptions) -> bool:
    """Whether a training that takes so many seconds on this machine needs no other: it is short, or none is faster.

    One whose states take so many bytes, and for which this machine has the memory.
    """
    has_room = process_bytes(memory) <= psutil.virtual_memory().total
    return has_room and seconds <= max(_SHORT_SECONDS, ways.fastest.seconds)


def _alike(pod: PodSettings, replicas: Mapping[str, int]) -> list[tuple[PodSettings, int]]:
    """Return what processes are given, and how many are given the same, whatever their roles are."""
    of_roles = [(pod.for_role(role), count) for role, count in replicas.items() if count]
    return [
        (alike, sum(count for other, count in of_roles if other == alike))
        for position, (alike, _) in enumerate(of_roles)
        if alike not in [other for other, _ in of_roles[:position]]
    ]


def _way(config: ExperimentConfig, epoch_seconds: float, memory: float, platform: PricingPlatform) -> ScalingOption:
    seconds = seconds_of_all(config, epoch_seconds)
    fits = process_bytes(memory) <= platform.memory
    return ScalingOption(config.workers, epoch_seconds, seconds, platform.bill(config.replicas, seconds), fits)
