"""What the processes of a job cost on the nodes of a Kubernetes cluster."""

import dataclasses
import math
from collections.abc import Sequence

from qcnn.jobs.costs.nodes import pods_on
from qcnn.jobs.costs.prices import MachineType, Prices
from qcnn.jobs.pod import Pod
from qcnn.trainer.errors import ConfigError

_HOUR = 3600.0
# A machine is charged by the second, but for a minute at least (cloud.google.com/compute/vm-instance-pricing).
LEAST_SECONDS = 60.0
# So long a node that nobody needs stays before the autoscaler takes it away (its --scale-down-unneeded-time).
IDLE_SECONDS = 600.0


@dataclasses.dataclass(frozen=True)
class Bill:
    """So many machines of a type, their hours together, and dollars; `spot_dollars` None where no such price is known.

    Dollars are those for machines on demand, whatever the job asks for.
    """

    machine: str
    machines: int
    hours: float
    dollars: float
    spot_dollars: float | None

    def charged(self, spot: bool) -> float:
        """Return the dollars of a job on Spot machines, or on others."""
        return self.spot_dollars if spot and self.spot_dollars is not None else self.dollars


def bill(name: str, machine: MachineType, machines: int, seconds: float, factor: float = 1.0) -> Bill:
    """Return the bill for so many machines, each for so many seconds, at a multiple of its price.

    >>> bill("n1-standard-4", MachineType(cpus=4, memory=15, price=0.19), 2, 1800).dollars
    0.19
    """
    hours = machines * max(seconds, LEAST_SECONDS) / _HOUR
    spot = None if machine.spot is None else hours * machine.spot * factor
    return Bill(name, machines, hours, hours * machine.price * factor, spot)


def together(bills: Sequence[Bill]) -> Bill:
    """Return the bill for all machines of these."""
    spot = [each.spot_dollars for each in bills if each.spot_dollars is not None]
    return Bill(
        " and ".join(dict.fromkeys(each.machine for each in bills)),
        sum(each.machines for each in bills),
        sum(each.hours for each in bills),
        sum(each.dollars for each in bills),
        sum(spot) if len(spot) == len(bills) else None,
    )


def bill_of_nodes(pods: int, pod: Pod, seconds: float, prices: Prices, machine_type: str = "") -> Bill:
    """Return the bill for the nodes that so many pods need for so many seconds, brought and taken by an autoscaler.

    They are of the type with which that is cheapest, on demand or Spot as the pod asks, or of the one that is named.
    What the cluster costs besides, its other nodes and its management, is not in it.

    Raises:
        ConfigError: the prices do not have the type, or none has room for a pod.
    """
    if machine_type and machine_type not in prices.machines:
        raise ConfigError(
            f"machine_type: must be in the prices, which have {len(prices.machines)} of {prices.region}. "
            f"Given: {machine_type}"
        )
    bills = [
        bill(name, machine, math.ceil(pods / room), seconds + IDLE_SECONDS)
        for name, machine in prices.machines.items()
        if machine_type in ("", name) and (room := pods_on(machine, pod))
    ]
    if pod.spot:
        bills = [each for each in bills if each.spot_dollars is not None] or bills
    if not bills:
        asked = f"cpu {pod.cpu}, memory {pod.memory}" + (f", {pod.gpus} {pod.accelerator}" if pod.gpus else "")
        which = f"{machine_type} has no" if machine_type else "no machine type of the prices has"
        raise ConfigError(f"pod: {which} room for one beside what Kubernetes needs itself. Given: {asked}")
    return min(bills, key=lambda each: (each.charged(pod.spot), each.machines))
