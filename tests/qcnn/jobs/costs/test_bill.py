"""Bills by hand."""

from typing import Any

import pytest

from qcnn.jobs.costs.bill import IDLE_SECONDS, bill, bill_of_nodes, together
from qcnn.jobs.costs.prices import MachineType, Prices, prices_from
from qcnn.jobs.pod import Pod, pod_settings
from qcnn.jobs.vertex.bill import bill_of_machines
from qcnn.trainer.errors import ConfigError

FOUR = {"cpus": 4, "memory": 16, "price": 0.20, "spot": 0.08}
EIGHT = {"cpus": 8, "memory": 32, "price": 0.36, "spot": 0.20}


def prices(**changed: Any) -> Prices:
    machines = {"n2-standard-4": FOUR, "n2-standard-8": EIGHT}
    head = {"date": "2026-01-02", "region": "here", "source": "a bill", "vertex_factor": 1.5}
    return prices_from({**head, "machines": machines, **changed})


def pod(**settings: Any) -> Pod:
    return pod_settings({"image": "qcnn", "memory": "1Gi", **settings})


def test_a_machine_is_charged_by_the_second_and_for_a_minute_at_least() -> None:
    machine = MachineType(cpus=4, memory=16, price=0.6)
    assert bill("four", machine, 3, 7200).dollars == pytest.approx(3 * 2 * 0.6)
    assert bill("four", machine, 1, 1).dollars == bill("four", machine, 1, 60).dollars == pytest.approx(0.01)
    assert bill("four", machine, 1, 1).spot_dollars is None


def test_machines_of_several_types_are_one_bill() -> None:
    four, eight = MachineType(cpus=4, memory=16, price=0.2, spot=0.1), MachineType(cpus=8, memory=16, price=0.4)
    bills = [bill("four", four, 2, 3600), bill("eight", eight, 1, 3600), bill("four", four, 1, 3600)]
    found = together(bills)
    assert (found.machine, found.machines) == ("four and eight", 4)
    assert found.hours == pytest.approx(4)
    assert found.dollars == pytest.approx(3 * 0.2 + 0.4)
    # Where one has no price on Spot, all of them have none.
    assert found.spot_dollars is None
    assert together(bills[::2]).spot_dollars == pytest.approx(0.3)
    assert together(bills[:1]) == bills[0]


def test_the_cheapest_nodes_are_taken_and_stay_until_the_autoscaler_takes_them() -> None:
    """Three pods of a core fit on four cores, seven on eight."""
    seconds = 3600 - IDLE_SECONDS
    few, many = (bill_of_nodes(pods, pod(), seconds, prices()) for pods in (3, 7))
    assert (few.machine, few.machines) == ("n2-standard-4", 1)
    assert few.hours == pytest.approx(1.0)
    assert few.dollars == pytest.approx(0.20)
    assert few.spot_dollars == pytest.approx(0.08)
    assert (many.machine, many.machines) == ("n2-standard-8", 1)
    assert many.dollars == pytest.approx(0.36)


def test_spot_nodes_are_compared_by_their_own_price() -> None:
    """Seven pods: one of eight cores on demand, but three of four cores on Spot would be 0.24."""
    dear = prices(machines={"n2-standard-4": FOUR, "n2-standard-8": {**EIGHT, "spot": 0.30}})
    assert bill_of_nodes(7, pod(), 3000, dear).machine == "n2-standard-8"
    assert bill_of_nodes(7, pod(spot=True), 3000, dear).machine == "n2-standard-4"


def test_the_machine_that_is_named() -> None:
    found = bill_of_nodes(3, pod(), 3000, prices(), "n2-standard-8")
    assert (found.machine, found.machines) == ("n2-standard-8", 1)


@pytest.mark.parametrize(
    ("settings", "machine_type", "line"),
    [
        ({"cpu": "8"}, "", "pod: no machine type of the prices has room .* Given: cpu 8, memory 1Gi"),
        ({"cpu": "4"}, "n2-standard-4", "pod: n2-standard-4 has no room .* Given: cpu 4, memory 1Gi"),
        ({}, "z9", "machine_type: must be in the prices, which have 2 of here. Given: z9"),
    ],
)
def test_what_no_node_has_room_for_is_refused(settings: dict[str, Any], machine_type: str, line: str) -> None:
    with pytest.raises(ConfigError, match=f"^{line}$"):
        bill_of_nodes(1, pod(**settings), 60, prices(), machine_type)


def test_vertex_ai_gives_each_process_a_machine_at_a_price_of_its_own() -> None:
    asked = pod(vertex={"machine_type": "n2-standard-4"})
    found = bill_of_machines(2, asked, 3600, prices())
    assert (found.machine, found.machines) == ("n2-standard-4", 2)
    assert found.dollars == pytest.approx(2 * 0.20 * 1.5)


@pytest.mark.parametrize(
    "settings",
    [
        {"vertex": {"machine_type": "c2-standard-4"}},
        # The price is that of the machine without the GPU that is attached to it.
        {"gpus": 1, "accelerator": "nvidia-tesla-t4"},
    ],
)
def test_a_machine_of_vertex_ai_without_a_price_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^prices: must have the machine that the job would run on. Given: no .*$"):
        bill_of_machines(1, pod(**settings), 60, prices())
