"""Price files and cost estimates."""

from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.pod_settings import PodSettings, pod_settings
from qcnn.jobs.pricing import (
    IDLE_SECONDS,
    MachinePrice,
    Prices,
    allocatable_memory,
    estimate_cost,
    estimate_node_cost,
    load_default_prices,
    pods_per_node,
    prices_from,
    total_cost,
)
from qcnn.jobs.vertex.machines import MACHINES, estimate_vm_cost

PRICES: dict[str, Any] = {
    "date": "2026-01-02",
    "region": "here",
    "source": "a bill",
    "machines": {"one": {"cpus": 2, "memory": 8, "price": 0.1}},
}


def test_default_prices_have_sizes_of_vertex_machine_types() -> None:
    priced = load_default_prices().machines
    sizes = {machine.name: (machine.cpus, machine.memory) for machine in MACHINES if machine.name in priced}
    assert len(sizes) > 50
    assert {name: (priced[name].cpus, priced[name].memory) for name in sizes} == sizes


def test_default_prices_are_lower_for_spot_and_linear_in_size() -> None:
    machines = load_default_prices().machines
    assert all(each.spot is None or each.spot < each.price for each in machines.values())
    assert machines["n2-standard-8"].price == pytest.approx(2 * machines["n2-standard-4"].price, rel=1e-4)


def test_prices_from_sets_defaults() -> None:
    prices = prices_from(PRICES)
    assert prices.machines["one"].spot is None
    assert prices.vertex_factor == 1.0


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"date": "yesterday"}, r"prices.date: must be a date \(YYYY-MM-DD\). Given: 'yesterday'"),
        ({"machines": {}}, "prices.machines: must be a mapping of names to machines. Given: {}"),
        ({"region": None}, "prices.region: must be text. Given: None"),
        ({"currency": "euro"}, "prices.currency: unknown field; valid fields: date, .*, machines. Given: 'euro'"),
        ({"vertex_factor": 0}, "prices.vertex_factor: must be a number above 0 and at most 100. Given: 0"),
        (
            {"machines": {"one": {"cpus": 1, "memory": 2, "price": 1, 1: 2}}},
            "prices.machines.one.1: unknown field; valid fields: cpus, .* Given: .*",
        ),
        ({"machines": {8: {}}}, "prices.machines.8: must be a machine with its cpus, memory and price. Given: 8"),
        ({"machines": {"one": 3}}, "prices.machines.one: must be a machine with its cpus, memory and price. Given: 3"),
        ({"machines": {"one": {"cpus": 1, "memory": 2}}}, "prices.machines.one.price: must be given. Given: none"),
        (
            {"machines": {"one": {"cpus": 1, "memory": 2, "price": float("nan")}}},
            "prices.machines.one.price: must be USD per hour, above 0 .*. Given: nan",
        ),
        (
            {"machines": {"one": {"cpus": 1.5, "memory": 2, "price": 1}}},
            "prices.machines.one.cpus: must be an integer, 1 to 100000. Given: 1.5",
        ),
        (
            {"machines": {"one": {"cpus": 1, "memory": 2, "price": 1, "disk": 3}}},
            "prices.machines.one.disk: unknown field; valid fields: cpus, memory, price, spot, .* Given: 3",
        ),
    ],
)
def test_prices_from_invalid_value_is_an_error(changed: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=f"^{line}$"):
        prices_from({**PRICES, **changed})


@pytest.mark.parametrize(("gib", "left"), [(3.75, 2.8), (7.5, 5.8), (15, 12.4), (30, 26.4), (60, 54.7), (240, 228.4)])
def test_allocatable_memory_equals_published_values(gib: float, left: float) -> None:
    """Values of n1-standard machines in "Allocatable memory and CPU resources" of GKE, without eviction threshold."""
    assert allocatable_memory(gib) == pytest.approx(left, abs=0.25)


def pod(**settings: object) -> PodSettings:
    return pod_settings({"image": "qcnn", **settings})


FOUR = MachinePrice(cpus=4, memory=16, price=0.2)
EIGHT_GPUS = MachinePrice(cpus=96, memory=680, price=29.4, accelerator="nvidia-tesla-a100", gpus=8)


@pytest.mark.parametrize(
    ("machine", "settings", "pods"),
    [
        # A part of the fourth core is reserved.
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
def test_pods_per_node_is_limited_by_requests(machine: MachinePrice, settings: dict[str, object], pods: int) -> None:
    assert pods_per_node(machine, pod(**settings)) == pods


FOUR_WORKERS = {"cpus": 4, "memory": 16, "price": 0.20, "spot": 0.08}
EIGHT = {"cpus": 8, "memory": 32, "price": 0.36, "spot": 0.20}


def prices(**changed: Any) -> Prices:
    machines = {"n2-standard-4": FOUR_WORKERS, "n2-standard-8": EIGHT}
    head = {"date": "2026-01-02", "region": "here", "source": "a bill", "vertex_factor": 1.5}
    return prices_from({**head, "machines": machines, **changed})


def billed_pod(**settings: Any) -> PodSettings:
    return pod_settings({"image": "qcnn", "memory": "1Gi", **settings})


def test_estimate_cost_bills_at_least_one_minute() -> None:
    machine = MachinePrice(cpus=4, memory=16, price=0.6)
    assert estimate_cost("four", machine, 3, 7200).dollars == pytest.approx(3 * 2 * 0.6)
    assert (
        estimate_cost("four", machine, 1, 1).dollars
        == estimate_cost("four", machine, 1, 60).dollars
        == pytest.approx(0.01)
    )
    assert estimate_cost("four", machine, 1, 1).spot_dollars is None


def test_total_cost_adds_machine_types() -> None:
    four, eight = MachinePrice(cpus=4, memory=16, price=0.2, spot=0.1), MachinePrice(cpus=8, memory=16, price=0.4)
    bills = [
        estimate_cost("four", four, 2, 3600),
        estimate_cost("eight", eight, 1, 3600),
        estimate_cost("four", four, 1, 3600),
    ]
    found = total_cost(bills)
    assert (found.machine, found.machines) == ("four and eight", 4)
    assert found.hours == pytest.approx(4)
    assert found.dollars == pytest.approx(3 * 0.2 + 0.4)
    # Without a Spot price of one type, the total has none.
    assert found.spot_dollars is None
    assert total_cost(bills[::2]).spot_dollars == pytest.approx(0.3)
    assert total_cost(bills[:1]) == bills[0]


def test_estimate_node_cost_selects_cheapest_with_idle_time() -> None:
    """3 pods with 1 core fit on 4 cores, 7 on 8 cores."""
    seconds = 3600 - IDLE_SECONDS
    few, many = (estimate_node_cost(pods, billed_pod(), seconds, prices()) for pods in (3, 7))
    assert (few.machine, few.machines) == ("n2-standard-4", 1)
    assert few.hours == pytest.approx(1.0)
    assert few.dollars == pytest.approx(0.20)
    assert few.spot_dollars == pytest.approx(0.08)
    assert (many.machine, many.machines) == ("n2-standard-8", 1)
    assert many.dollars == pytest.approx(0.36)


def test_estimate_node_cost_compares_spot_prices() -> None:
    """7 pods need 1 node with 8 cores (cheaper on demand), or 3 with 4 cores (cheaper on Spot: 0.24 USD per hour)."""
    dear = prices(machines={"n2-standard-4": FOUR_WORKERS, "n2-standard-8": {**EIGHT, "spot": 0.30}})
    assert estimate_node_cost(7, billed_pod(), 3000, dear).machine == "n2-standard-8"
    assert estimate_node_cost(7, billed_pod(spot=True), 3000, dear).machine == "n2-standard-4"


def test_estimate_node_cost_uses_given_machine_type() -> None:
    found = estimate_node_cost(3, billed_pod(), 3000, prices(), "n2-standard-8")
    assert (found.machine, found.machines) == ("n2-standard-8", 1)


@pytest.mark.parametrize(
    ("settings", "machine_type", "line"),
    [
        ({"cpu": "8"}, "", "pod: must fit on a machine type of the prices, .* Given: cpu 8, memory 1Gi"),
        ({"cpu": "4"}, "n2-standard-4", "pod: must fit on n2-standard-4, .* Given: cpu 4, memory 1Gi"),
        ({}, "z9", r"machine_type: must be in the prices \(2 types in here\). Given: z9"),
    ],
)
def test_estimate_node_cost_without_fitting_node_is_an_error(
    settings: dict[str, Any], machine_type: str, line: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{line}$"):
        estimate_node_cost(1, billed_pod(**settings), 60, prices(), machine_type)


def test_estimate_vm_cost_bills_one_vm_per_process() -> None:
    pod = billed_pod(vertex={"machine_type": "n2-standard-4"})
    found = estimate_vm_cost(2, pod, 3600, prices())
    assert (found.machine, found.machines) == ("n2-standard-4", 2)
    assert found.dollars == pytest.approx(2 * 0.20 * 1.5)


@pytest.mark.parametrize(
    "settings",
    [
        {"vertex": {"machine_type": "c2-standard-4"}},
        # The price excludes the attached GPU.
        {"gpus": 1, "accelerator": "nvidia-tesla-t4"},
    ],
)
def test_estimate_vm_cost_without_price_is_an_error(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^prices: must contain the machine type of the job\. Given: no .*$"):
        estimate_vm_cost(1, billed_pod(**settings), 60, prices())
