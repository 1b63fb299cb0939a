"""A simulator is two modules and one line: whatever is registered is estimated, chosen and created."""

import functools
import logging
import sys
import types

import pytest

from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.errors import ConfigError
from qcnn.experiment_io import from_mapping
from qcnn.simulators import SimulatorLimits, costs, lightcone, registry, statevector
from qcnn.simulators import registry as choice
from qcnn.simulators.costs.cost import StepCost
from qcnn.simulators.interface import Declaration
from qcnn.simulators.structure.gates import CircuitIR, read_model, read_network

LIMITS = SimulatorLimits(memory=2**30, batch=4)
ANSATZ, NETWORK = read_model("hybrid", 4)


def test_a_registered_simulator_is_estimated_chosen_and_created(monkeypatch: pytest.MonkeyPatch) -> None:
    def estimate(network: CircuitIR, limits: SimulatorLimits, /) -> StepCost:
        return StepCost(flops=1.0)

    mine = types.SimpleNamespace(DECLARATION=Declaration(), estimate=estimate, check=lambda network, limits: None)
    monkeypatch.setitem(registry.SIMULATORS, "mine", mine)
    monkeypatch.setitem(sys.modules, "qcnn.simulators.mine", lightcone)
    estimates = choice.estimates(NETWORK, LIMITS)
    assert [each.simulator for each in estimates] == ["lightcone", "statevector", "tfq", "density", "mine"]
    assert choice.cheapest(estimates, NETWORK, LIMITS).simulator == "mine"
    for name in ("mine", "auto"):
        assert simulators.create(name, ANSATZ, circuits.ring(4), LIMITS).network.ansatz is ANSATZ


def test_auto_leaves_out_what_a_strategy_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = types.SimpleNamespace(
        DECLARATION=Declaration(own_operations=False), estimate=lambda network, limits: StepCost(flops=1.0), check=None
    )
    monkeypatch.setitem(registry.SIMULATORS, "tfq", foreign)
    for strategy, is_chosen in (("multi_worker", True), ("parameter_server", False), ("tpu", False)):
        limits = from_mapping({"qubits": 4, "workers": 1, "strategy": strategy}).limits
        assert (registry.cheapest(registry.estimates(NETWORK, limits), NETWORK, limits).simulator == "tfq") is is_chosen


@pytest.mark.parametrize("name", registry.SIMULATORS)
def test_every_simulator_is_made_in_the_same_way(name: str) -> None:
    costs = registry.SIMULATORS[name]
    assert 0 < costs.estimate(NETWORK, LIMITS).memory < LIMITS.memory
    costs.check(NETWORK, LIMITS)
    assert registry.load(name).create(NETWORK, LIMITS).name == name


@pytest.mark.parametrize("name", ["lightcone", "statevector"])
def test_what_does_not_fit_is_refused_in_the_same_words_before_and_when_it_is_created(name: str) -> None:
    limits = SimulatorLimits(memory=1.0, batch=4)
    refusals = []
    for refuse in (registry.check, registry.create):
        with pytest.raises(ConfigError, match=f"^qubits: .*simulator {name}") as error:
            refuse(name, NETWORK, limits)
        refusals.append(str(error.value))
    assert refusals[0] == refusals[1]


SMALL_LIMITS = SimulatorLimits(memory=2**31, batch=32)


@functools.cache
def network_of(model: str, qubits: int) -> CircuitIR:
    return read_network(circuits.build(model, qubits), circuits.ring(qubits))


def chosen(model: str, qubits: int, limits: SimulatorLimits = SMALL_LIMITS) -> str:
    network = network_of(model, qubits)
    return registry.cheapest(registry.estimates(network, limits), network, limits).simulator


@pytest.mark.parametrize("qubits", [12, 23, 24, 64, 1024])
def test_hybrid_takes_windows(qubits: int) -> None:
    assert chosen("hybrid", qubits) == "lightcone"


@pytest.mark.parametrize("qubits", [8, 16, 20])
def test_deep_takes_state_vectors(qubits: int) -> None:
    assert chosen("deep", qubits) == "statevector"


def test_auto_creates_what_is_cheapest_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    for model, qubits, kind in (
        ("hybrid", 24, lightcone.LightconeSimulator),
        ("deep", 16, statevector.StatevectorSimulator),
    ):
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="qcnn"):
            ansatz = circuits.build(model, qubits)
            assert isinstance(simulators.create("auto", ansatz, circuits.ring(qubits), SMALL_LIMITS), kind)
        name = "lightcone" if model == "hybrid" else "statevector"
        assert caplog.messages == [f"simulator: {name}, the cheapest that is exact and fits"]


@pytest.mark.parametrize("gib", [2, 64])
def test_what_nothing_can_run_is_refused_in_one_line(gib: int) -> None:
    with pytest.raises(
        ConfigError,
        match=rf"^qubits: no simulator can run this circuit in {gib} GiB \(simulator_memory_gib\).* TiB. Given: 64$",
    ) as error:
        simulators.create("auto", circuits.build("deep", 64), circuits.ring(64), SimulatorLimits(gib * 2.0**30, 32))
    assert "\n" not in str(error.value)


def test_a_simulator_that_does_not_fit_is_not_taken() -> None:
    """State vectors would be faster for `hybrid` at n = 11, which no memory for two of them rules out."""
    network = network_of("hybrid", 11)
    least = 2 * costs.statevector._column_bytes(network, SMALL_LIMITS)
    needs = {estimate.simulator: estimate.cost.memory for estimate in registry.estimates(network, SMALL_LIMITS)}
    assert needs["lightcone"] < least or needs["tfq"] < least
    estimates = registry.estimates(network, SimulatorLimits(memory=least - 1, batch=32))
    fits = {estimate.simulator: estimate.fits for estimate in estimates}
    assert not fits["statevector"]
    taken = registry.cheapest(estimates, network, SimulatorLimits(memory=least - 1, batch=32))
    assert taken.fits


@pytest.mark.parametrize("name", ["lightcone", "statevector", "tfq"])
def test_larger_batches_never_cost_less(name: str) -> None:
    def cost(batch: int) -> StepCost:
        (estimate,) = (
            e for e in registry.estimates(network_of("hybrid", 8), SimulatorLimits(2**31, batch)) if e.simulator == name
        )
        return estimate.cost

    assert cost(1).operations <= cost(8).operations <= cost(32).operations <= cost(4096).operations
    # Beyond the states that all samples span, only TensorFlow Quantum evolves more.
    assert (cost(4096).operations > 10 * cost(32).operations) == (name == "tfq")


def test_no_simulator_is_chosen_whose_library_is_not_published_here(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = registry.SIMULATORS["tfq"].DECLARATION
    cheapest = types.SimpleNamespace(
        DECLARATION=declared, estimate=lambda network, limits: StepCost(flops=1.0), check=None
    )
    monkeypatch.setitem(registry.SIMULATORS, "tfq", cheapest)
    assert choice.cheapest(choice.estimates(NETWORK, LIMITS), NETWORK, LIMITS).simulator == "tfq"
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    estimates = choice.estimates(NETWORK, LIMITS)
    assert [each.simulator for each in estimates if not each.fits] == ["tfq"]
    assert choice.cheapest(estimates, NETWORK, LIMITS).simulator != "tfq"
    for refuse in (registry.check, registry.create):
        with pytest.raises(ConfigError, match=r"published for Linux on x86-64 only. Given: tfq on Linux aarch64$"):
            refuse("tfq", NETWORK, LIMITS)
