"""A simulator is one module and one line: whatever is registered is estimated, chosen and created."""

import types
from typing import get_args

import pytest

from trainer import simulators
from trainer.config import EXPERIMENT_FIELDS
from trainer.quantum import circuits
from trainer.simulators import Limits, choice, registry
from trainer.simulators.cost import Cost
from trainer.simulators.gates import Network, read_model

LIMITS = Limits(memory=2**30, batch=4)
ANSATZ, NETWORK = read_model("hybrid", 4)


def test_the_registry_names_the_simulators_that_an_experiment_can_ask_for() -> None:
    assert {"auto", *registry.SIMULATORS} == set(get_args(EXPERIMENT_FIELDS["simulator"].annotation))


def test_a_registered_simulator_is_estimated_chosen_and_created(monkeypatch: pytest.MonkeyPatch) -> None:
    window = registry.SIMULATORS["window"]

    def estimate(network: Network, limits: Limits, /) -> Cost:
        return Cost(flops=1.0)

    mine = types.SimpleNamespace(estimate=estimate, create=window.create)
    monkeypatch.setitem(registry.SIMULATORS, "mine", mine)
    estimates = choice.estimates(NETWORK, LIMITS)
    assert [each.simulator for each in estimates] == ["window", "statevector", "tfq", "mine"]
    assert choice.cheapest(estimates, NETWORK, LIMITS).simulator == "mine"
    for name in ("mine", "auto"):
        assert simulators.create(name, ANSATZ, circuits.ring(4), LIMITS).network.ansatz is ANSATZ


@pytest.mark.parametrize("name", registry.SIMULATORS)
def test_every_simulator_is_made_in_the_same_way(name: str) -> None:
    simulator = registry.SIMULATORS[name]
    assert 0 < simulator.estimate(NETWORK, LIMITS).memory < LIMITS.memory
    assert simulator.create(NETWORK, LIMITS).name == name
