"""The file of prices: what it holds, and what is refused of a user's own."""

from typing import Any

import pytest

from qcnn.jobs.costs.prices import own_prices, prices_from
from qcnn.jobs.vertex.machines import MACHINES
from qcnn.trainer.errors import ConfigError

PRICES: dict[str, Any] = {
    "date": "2026-01-02",
    "region": "here",
    "source": "a bill",
    "machines": {"one": {"cpus": 2, "memory": 8, "price": 0.1}},
}


def test_our_own_prices_are_those_of_machines_of_the_same_size_as_where_vertex_ai_trains() -> None:
    priced = own_prices().machines
    sizes = {machine.name: (machine.cpus, machine.memory) for machine in MACHINES if machine.name in priced}
    assert len(sizes) > 50
    assert {name: (priced[name].cpus, priced[name].memory) for name in sizes} == sizes


def test_a_spot_machine_is_cheaper_and_twice_the_machine_costs_twice_as_much() -> None:
    machines = own_prices().machines
    assert all(each.spot is None or each.spot < each.price for each in machines.values())
    assert machines["n2-standard-8"].price == pytest.approx(2 * machines["n2-standard-4"].price, rel=1e-4)


def test_a_file_of_ones_own() -> None:
    prices = prices_from(PRICES)
    assert prices.machines["one"].spot is None
    assert prices.vertex_factor == 1.0


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"date": "yesterday"}, "prices.date: must be a day. Given: 'yesterday'"),
        ({"machines": {}}, "prices.machines: must be a mapping of names to machines. Given: {}"),
        ({"region": None}, "prices.region: must be text. Given: None"),
        ({"currency": "euro"}, "prices.currency: unknown key; the keys are date, .*, machines. Given: 'euro'"),
        ({"vertex_factor": 0}, "prices.vertex_factor: must be a number above 0 and at most 100. Given: 0"),
        (
            {"machines": {"one": {"cpus": 1, "memory": 2, "price": 1, 1: 2}}},
            "prices.machines.one.1: unknown key; the keys are cpus, .* Given: .*",
        ),
        ({"machines": {8: {}}}, "prices.machines.8: must be a machine with its cpus, memory and price. Given: 8"),
        ({"machines": {"one": 3}}, "prices.machines.one: must be a machine with its cpus, memory and price. Given: 3"),
        ({"machines": {"one": {"cpus": 1, "memory": 2}}}, "prices.machines.one.price: must be given. Given: none"),
        (
            {"machines": {"one": {"cpus": 1, "memory": 2, "price": float("nan")}}},
            "prices.machines.one.price: must be dollars an hour, above 0 .*. Given: nan",
        ),
        (
            {"machines": {"one": {"cpus": 1.5, "memory": 2, "price": 1}}},
            "prices.machines.one.cpus: must be an integer, 1 to 100000. Given: 1.5",
        ),
        (
            {"machines": {"one": {"cpus": 1, "memory": 2, "price": 1, "disk": 3}}},
            "prices.machines.one.disk: unknown key; the keys are cpus, memory, price, spot, .* Given: 3",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(changed: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=f"^{line}$"):
        prices_from({**PRICES, **changed})
