"""A simulator is two modules and one line: whatever is registered is estimated, chosen and created."""

import sys
import types
from typing import get_args

import pytest

from qcnn.trainer import simulators
from qcnn.trainer.config import EXPERIMENT_FIELDS
from qcnn.trainer.errors import ConfigError
from qcnn.trainer.quantum import circuits
from qcnn.trainer.simulators import Limits, choice, registry, window
from qcnn.trainer.simulators.costs.cost import Cost
from qcnn.trainer.simulators.structure.gates import Network, read_model

LIMITS = Limits(memory=2**30, batch=4)
ANSATZ, NETWORK = read_model("hybrid", 4)


def test_the_registry_names_the_simulators_that_an_experiment_can_ask_for() -> None:
    assert {"auto", *registry.SIMULATORS} == set(get_args(EXPERIMENT_FIELDS["simulator"].annotation))


def test_a_registered_simulator_is_estimated_chosen_and_created(monkeypatch: pytest.MonkeyPatch) -> None:
    def estimate(network: Network, limits: Limits, /) -> Cost:
        return Cost(flops=1.0)

    mine = types.SimpleNamespace(estimate=estimate, check=lambda network, limits: None)
    monkeypatch.setitem(registry.SIMULATORS, "mine", mine)
    monkeypatch.setitem(sys.modules, "qcnn.trainer.simulators.mine", window)
    estimates = choice.estimates(NETWORK, LIMITS)
    assert [each.simulator for each in estimates] == ["window", "statevector", "tfq", "density", "mine"]
    assert choice.cheapest(estimates, NETWORK, LIMITS).simulator == "mine"
    for name in ("mine", "auto"):
        assert simulators.create(name, ANSATZ, circuits.ring(4), LIMITS).network.ansatz is ANSATZ


@pytest.mark.parametrize("name", registry.SIMULATORS)
def test_every_simulator_is_made_in_the_same_way(name: str) -> None:
    costs = registry.SIMULATORS[name]
    assert 0 < costs.estimate(NETWORK, LIMITS).memory < LIMITS.memory
    costs.check(NETWORK, LIMITS)
    assert registry.load(name).create(NETWORK, LIMITS).name == name


@pytest.mark.parametrize("name", ["window", "statevector"])
def test_what_does_not_fit_is_refused_in_the_same_words_before_and_when_it_is_created(name: str) -> None:
    limits = Limits(memory=1.0, batch=4)
    refusals = []
    for refuse in (registry.SIMULATORS[name].check, registry.load(name).create):
        with pytest.raises(ConfigError, match=f"^qubits: .*simulator {name}") as error:
            refuse(NETWORK, limits)
        refusals.append(str(error.value))
    assert refusals[0] == refusals[1]
