"""What machines of a cloud cost, by a dated file that a user may replace, and how many of them a job takes."""

import dataclasses
import datetime
import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML

from qcnn.errors import ConfigError
from qcnn.jobs.pod_settings import PodSettings, amount, refusal

_DEFAULT_FILE = Path(__file__).with_name("prices.yaml")


def _date_to_text(value: object) -> object:
    """In YAML, a day is a date; JSON and messages have it as text."""
    return value.isoformat() if isinstance(value, datetime.date) else value


_PRICE = "dollars an hour, above 0 and at most 1000000"
Price = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]


class MachinePrice(BaseModel):
    """A machine with its vCPUs, its memory in GiB, the accelerators that it always has, and its prices an hour."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpus: Annotated[int, Field(ge=1, le=100_000, strict=True, description="an integer, 1 to 100000")]
    memory: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False, description="GiB, above 0 and at most 1000000")]
    price: Annotated[Price, Field(description=_PRICE)]
    spot: Annotated[Price | None, Field(description=_PRICE)] = None
    accelerator: Annotated[str, Field(description="text")] = ""
    gpus: Annotated[int, Field(ge=0, le=1000, strict=True, description="an integer, 0 to 1000")] = 0


class Prices(BaseModel):
    """The prices of one region on one day; those of Vertex AI are so many times the ones of Compute Engine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: Annotated[str, BeforeValidator(_date_to_text), Field(pattern=r"^\d{4}-\d\d-\d\d$", description="a day")]
    region: Annotated[str, Field(description="text")]
    source: Annotated[str, Field(description="text")]
    vertex_factor: Annotated[float, Field(gt=0, le=100, description="a number above 0 and at most 100")] = 1.0
    machines: Annotated[dict[str, MachinePrice], Field(min_length=1, description="a mapping of names to machines")]


@functools.cache
def load_default_prices() -> Prices:
    """Return the prices that come with this package.

    >>> own_prices().machines["n1-standard-4"].cpus
    4
    """
    return prices_from(YAML(typ="safe").load(_DEFAULT_FILE))


def prices_from(values: Mapping[str, Any]) -> Prices:
    """Validate the content of a file of prices.

    Raises:
        ConfigError: one line with the first that is wrong, its value and what is allowed.
    """
    try:
        return Prices.model_validate(dict(values))
    except ValidationError as error:
        machines = (MachinePrice, "a machine with its cpus, memory and price")
        raise refusal(error, "prices", Prices, {"machines": machines}) from None


_GIB = 1024.0**3
# Shares of the first, second, ... part of a machine, each of a size in GiB.
_RESERVED_MEMORY = ((4.0, 0.25), (4.0, 0.20), (8.0, 0.10), (112.0, 0.06), (float("inf"), 0.02))
# Of the first core, the second, the next two, and all others.
_RESERVED_CPUS = ((1.0, 0.06), (1.0, 0.01), (2.0, 0.005), (float("inf"), 0.0025))
_AGENTS_CPUS, _AGENTS_MEMORY = 0.5, 0.5
# The most pods that a node of GKE runs, unless its cluster was made for another number.
_MAX_PODS = 110


def allocatable_memory(gib: float) -> float:
    """Return what GKE leaves of a machine's memory, in GiB, for pods; its own agents are among them."""
    return gib - _reserved(gib, _RESERVED_MEMORY)


def pods_per_node(machine: MachinePrice, pod: PodSettings) -> int:
    """Return how many such pods a node has room for, by what they ask for; 0 if it has not even for one."""
    room = [
        (machine.cpus - _reserved(machine.cpus, _RESERVED_CPUS) - _AGENTS_CPUS) / amount(pod.cpu),
        (allocatable_memory(machine.memory) - _AGENTS_MEMORY) / (amount(pod.memory) / _GIB),
    ]
    if pod.gpus:
        room.append(machine.gpus / pod.gpus if machine.accelerator == pod.accelerator or not pod.accelerator else 0)
    return max(0, int(min(*room, _MAX_PODS)))


def _reserved(size: float, shares: tuple[tuple[float, float], ...]) -> float:
    kept = 0.0
    for part, share in shares:
        kept += min(part, size) * share
        size = max(0.0, size - part)
    return kept


_HOUR = 3600.0
# A machine is charged by the second, but for a minute at least (cloud.google.com/compute/vm-instance-pricing).
MIN_SECONDS = 60.0
# So long a node that nobody needs stays before the autoscaler takes it away (its --scale-down-unneeded-time).
IDLE_SECONDS = 600.0


@dataclasses.dataclass(frozen=True)
class CostEstimate:
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


def estimate_cost(name: str, machine: MachinePrice, machines: int, seconds: float, factor: float = 1.0) -> CostEstimate:
    """Return the bill for so many machines, each for so many seconds, at a multiple of its price.

    >>> bill("n1-standard-4", MachineType(cpus=4, memory=15, price=0.19), 2, 1800).dollars
    0.19
    """
    hours = machines * max(seconds, MIN_SECONDS) / _HOUR
    spot = None if machine.spot is None else hours * machine.spot * factor
    return CostEstimate(name, machines, hours, hours * machine.price * factor, spot)


def total_cost(bills: Sequence[CostEstimate]) -> CostEstimate:
    """Return the bill for all machines of these."""
    spot = [each.spot_dollars for each in bills if each.spot_dollars is not None]
    return CostEstimate(
        " and ".join(dict.fromkeys(each.machine for each in bills)),
        sum(each.machines for each in bills),
        sum(each.hours for each in bills),
        sum(each.dollars for each in bills),
        sum(spot) if len(spot) == len(bills) else None,
    )


def estimate_node_cost(
    pods: int, pod: PodSettings, seconds: float, prices: Prices, machine_type: str = ""
) -> CostEstimate:
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
        estimate_cost(name, machine, math.ceil(pods / room), seconds + IDLE_SECONDS)
        for name, machine in prices.machines.items()
        if machine_type in ("", name) and (room := pods_per_node(machine, pod))
    ]
    if pod.spot:
        bills = [each for each in bills if each.spot_dollars is not None] or bills
    if not bills:
        asked = f"cpu {pod.cpu}, memory {pod.memory}" + (f", {pod.gpus} {pod.accelerator}" if pod.gpus else "")
        which = f"{machine_type} has no" if machine_type else "no machine type of the prices has"
        raise ConfigError(f"pod: {which} room for one beside what Kubernetes needs itself. Given: {asked}")
    return min(bills, key=lambda each: (each.charged(pod.spot), each.machines))
