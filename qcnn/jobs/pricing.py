"""Prices of cloud machines from a dated file, and estimates of the machines and the cost of a job."""

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
from qcnn.jobs.pod_settings import PodSettings, parse_quantity, settings_error

_DEFAULT_FILE = Path(__file__).with_name("prices.yaml")


def _date_to_text(value: object) -> object:
    """Convert a date to text, because YAML parses dates."""
    return value.isoformat() if isinstance(value, datetime.date) else value


_PRICE = "USD per hour, above 0 and at most 1000000"
Price = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]


class MachinePrice(BaseModel):
    """vCPUs, memory (GiB), fixed accelerators and prices (USD per hour) of a machine type."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpus: Annotated[int, Field(ge=1, le=100_000, strict=True, description="an integer, 1 to 100000")]
    memory: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False, description="GiB, above 0 and at most 1000000")]
    price: Annotated[Price, Field(description=_PRICE)]
    spot: Annotated[Price | None, Field(description=_PRICE)] = None
    accelerator: Annotated[str, Field(description="text")] = ""
    gpus: Annotated[int, Field(ge=0, le=1000, strict=True, description="an integer, 0 to 1000")] = 0


class Prices(BaseModel):
    """Compute Engine prices of one region on one day.

    Vertex AI prices are `vertex_factor` times as high.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: Annotated[
        str, BeforeValidator(_date_to_text), Field(pattern=r"^\d{4}-\d\d-\d\d$", description="a date (YYYY-MM-DD)")
    ]
    region: Annotated[str, Field(description="text")]
    source: Annotated[str, Field(description="text")]
    vertex_factor: Annotated[float, Field(gt=0, le=100, description="a number above 0 and at most 100")] = 1.0
    machines: Annotated[dict[str, MachinePrice], Field(min_length=1, description="a mapping of names to machines")]


@functools.cache
def load_default_prices() -> Prices:
    """Return the prices that are included in this package.

    >>> load_default_prices().machines["n1-standard-4"].cpus
    4
    """
    return prices_from(YAML(typ="safe").load(_DEFAULT_FILE))


def prices_from(values: Mapping[str, Any]) -> Prices:
    """Validate the content of a price file.

    Raises:
        ConfigError: If a setting is invalid.
    """
    try:
        return Prices.model_validate(dict(values))
    except ValidationError as error:
        machines = (MachinePrice, "a machine with its cpus, memory and price")
        raise settings_error(error, "prices", Prices, {"machines": machines}) from None


_GIB = 1024.0**3
# (GiB, reserved fraction) of consecutive parts of a machine's memory.
_RESERVED_MEMORY = ((4.0, 0.25), (4.0, 0.20), (8.0, 0.10), (112.0, 0.06), (float("inf"), 0.02))
# (cores, reserved fraction): first core, second core, next two cores, all others.
_RESERVED_CPUS = ((1.0, 0.06), (1.0, 0.01), (2.0, 0.005), (float("inf"), 0.0025))
_AGENTS_CPUS, _AGENTS_MEMORY = 0.5, 0.5
# GKE's default maximum number of pods per node.
_MAX_PODS = 110


def allocatable_memory(gib: float) -> float:
    """Return the allocatable memory of a GKE node in GiB, including that of GKE's agents."""
    return gib - _reserved(gib, _RESERVED_MEMORY)


def pods_per_node(machine: MachinePrice, pod: PodSettings) -> int:
    """Return the number of pods that fit on a node, by their requests."""
    capacities = [
        (machine.cpus - _reserved(machine.cpus, _RESERVED_CPUS) - _AGENTS_CPUS) / parse_quantity(pod.cpu),
        (allocatable_memory(machine.memory) - _AGENTS_MEMORY) / (parse_quantity(pod.memory) / _GIB),
    ]
    if pod.gpus:
        has_accelerator = machine.accelerator == pod.accelerator or not pod.accelerator
        capacities.append(machine.gpus / pod.gpus if has_accelerator else 0)
    return max(0, int(min(*capacities, _MAX_PODS)))


def _reserved(size: float, shares: tuple[tuple[float, float], ...]) -> float:
    reserved = 0.0
    for part, share in shares:
        reserved += min(part, size) * share
        size = max(0.0, size - part)
    return reserved


_HOUR = 3600.0
# Machines are billed per second, with a minimum of 1 minute (cloud.google.com/compute/vm-instance-pricing).
MIN_SECONDS = 60.0
# Idle time after which the autoscaler removes a node (--scale-down-unneeded-time).
IDLE_SECONDS = 600.0


@dataclasses.dataclass(frozen=True)
class CostEstimate:
    """Estimated machines, machine hours and cost of a job.

    Attributes:
        machine: Machine type, or several types.
        machines: Number of machines.
        hours: Machine hours of all machines.
        dollars: Cost of on-demand machines in USD, also for a Spot job.
        spot_dollars: Cost of Spot machines in USD, or None if a Spot price is unknown.
    """

    machine: str
    machines: int
    hours: float
    dollars: float
    spot_dollars: float | None

    def charged(self, spot: bool) -> float:
        """Return the cost in USD of a Spot or on-demand job."""
        return self.spot_dollars if spot and self.spot_dollars is not None else self.dollars


def estimate_cost(name: str, machine: MachinePrice, machines: int, seconds: float, factor: float = 1.0) -> CostEstimate:
    """Return the cost of machines of one type.

    Args:
        name: Machine type.
        machine: Size and prices of the machine type.
        machines: Number of machines.
        seconds: Duration of each machine.
        factor: Factor on the prices.

    >>> estimate_cost("n1-standard-4", MachinePrice(cpus=4, memory=15, price=0.19), 2, 1800).dollars
    0.19
    """
    hours = machines * max(seconds, MIN_SECONDS) / _HOUR
    spot = None if machine.spot is None else hours * machine.spot * factor
    return CostEstimate(name, machines, hours, hours * machine.price * factor, spot)


def total_cost(estimates: Sequence[CostEstimate]) -> CostEstimate:
    """Return the total of several cost estimates."""
    spot = [each.spot_dollars for each in estimates if each.spot_dollars is not None]
    return CostEstimate(
        " and ".join(dict.fromkeys(each.machine for each in estimates)),
        sum(each.machines for each in estimates),
        sum(each.hours for each in estimates),
        sum(each.dollars for each in estimates),
        sum(spot) if len(spot) == len(estimates) else None,
    )


def estimate_node_cost(
    pods: int, pod: PodSettings, seconds: float, prices: Prices, machine_type: str = ""
) -> CostEstimate:
    """Return the cost of the nodes that an autoscaler creates and deletes for the pods of a job.

    The cost excludes other nodes and the management fee of the cluster.

    Args:
        pods: Number of pods.
        pod: Settings of each pod.
        seconds: Duration of the job.
        prices: Prices of the machine types.
        machine_type: Machine type of the nodes; by default the cheapest for the job, on demand or Spot as in `pod`.

    Raises:
        ConfigError: If the prices do not contain the machine type, or the pod does not fit on any machine.
    """
    if machine_type and machine_type not in prices.machines:
        raise ConfigError(
            f"machine_type: must be in the prices ({len(prices.machines)} types in {prices.region}). "
            f"Given: {machine_type}"
        )
    estimates = [
        estimate_cost(name, machine, math.ceil(pods / per_node), seconds + IDLE_SECONDS)
        for name, machine in prices.machines.items()
        if machine_type in ("", name) and (per_node := pods_per_node(machine, pod))
    ]
    if pod.spot:
        estimates = [each for each in estimates if each.spot_dollars is not None] or estimates
    if not estimates:
        requests = f"cpu {pod.cpu}, memory {pod.memory}" + (f", {pod.gpus} {pod.accelerator}" if pod.gpus else "")
        node = machine_type or "a machine type of the prices"
        raise ConfigError(f"pod: must fit on {node}, next to the reservations of Kubernetes. Given: {requests}")
    return min(estimates, key=lambda each: (each.charged(pod.spot), each.machines))
