"""Registration, selection and creation of simulators."""

import functools
import logging
import types

import pytest

from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.circuits.preparation import Preparation
from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_mapping
from qcnn.simulators import SimulatorLimits, lightcone, registry, statevector_cpu
from qcnn.simulators import registry as choice
from qcnn.simulators.costs.cost import StepCost
from qcnn.simulators.interface import Declaration
from qcnn.simulators.structure.gates import read_model, read_network
from qcnn.simulators.structure.network import CircuitIR

LIMITS = SimulatorLimits(memory=2**30, batch=4)
ANSATZ, NETWORK = read_model("hybrid", 4)


def test_registered_simulator_is_estimated_selected_and_created(monkeypatch: pytest.MonkeyPatch) -> None:
    def estimate(network: CircuitIR, limits: SimulatorLimits, /) -> StepCost:
        return StepCost(flops=1.0)

    mine = types.SimpleNamespace(
        DECLARATION=Declaration("qcnn.simulators.lightcone"), estimate=estimate, check=lambda network, limits: None
    )
    monkeypatch.setitem(registry.SIMULATORS, "mine", mine)
    estimates = choice.estimates(NETWORK, LIMITS)
    assert [each.simulator for each in estimates] == [
        "lightcone",
        "statevector",
        "statevector_cpu",
        "tfq",
        "density",
        "mine",
    ]
    assert choice.cheapest(estimates, NETWORK, LIMITS).simulator == "mine"
    for name in ("mine", "auto"):
        assert simulators.create(name, ANSATZ, circuits.ring(4), LIMITS).network.ansatz is ANSATZ


def test_auto_excludes_tfq_if_strategy_needs_own_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = types.SimpleNamespace(
        DECLARATION=Declaration("", builtin_operations=False),
        estimate=lambda network, limits: StepCost(flops=1.0),
        check=None,
    )
    monkeypatch.setitem(registry.SIMULATORS, "tfq", foreign)
    for strategy, is_chosen in (("multi_worker", True), ("parameter_server", False), ("tpu", False)):
        limits = from_mapping({"qubits": 4, "workers": 1, "strategy": strategy}).limits
        assert (registry.cheapest(registry.estimates(NETWORK, limits), NETWORK, limits).simulator == "tfq") is is_chosen


SMALL_LIMITS = SimulatorLimits(memory=2**31, batch=32)


@functools.cache
def network_of(model: str, qubits: int) -> CircuitIR:
    return read_network(circuits.build(model, qubits), circuits.ring(qubits))


def chosen(model: str, qubits: int, limits: SimulatorLimits = SMALL_LIMITS) -> str:
    network = network_of(model, qubits)
    return registry.cheapest(registry.estimates(network, limits), network, limits).simulator


@pytest.mark.parametrize("qubits", [12, 23, 24, 64, 1024])
def test_auto_for_hybrid_selects_lightcone(qubits: int) -> None:
    assert chosen("hybrid", qubits) == "lightcone"


@pytest.mark.parametrize("qubits", [4, 8, 16])
def test_auto_for_deep_selects_compiled_kernels(qubits: int) -> None:
    assert chosen("deep", qubits) == "statevector_cpu"


@pytest.mark.parametrize("qubits", [4, 8, 12, 16])
@pytest.mark.parametrize("batch", [32, 256])
def test_auto_for_deep_on_features_selects_compiled_kernels(qubits: int, batch: int) -> None:
    network = read_network(circuits.build("deep", qubits), circuits.ring(qubits), Preparation("ry", qubits))
    limits = SimulatorLimits(memory=2**31, batch=batch)
    assert registry.cheapest(registry.estimates(network, limits), network, limits).simulator == "statevector_cpu"


def test_auto_creates_cheapest_simulator_and_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    for model, qubits, kind in (
        ("hybrid", 24, lightcone.LightconeSimulator),
        ("deep", 16, statevector_cpu.StatevectorCpuSimulator),
    ):
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="qcnn"):
            ansatz = circuits.build(model, qubits)
            assert isinstance(simulators.create("auto", ansatz, circuits.ring(qubits), SMALL_LIMITS), kind)
        name = "lightcone" if model == "hybrid" else "statevector_cpu"
        assert caplog.messages == [f"simulator: {name}, the cheapest that is exact and fits"]


@pytest.mark.parametrize("gib", [2, 64])
def test_auto_without_fitting_simulator_raises(gib: int) -> None:
    with pytest.raises(
        ConfigError,
        match=rf"^qubits: no simulator can run this circuit in {gib} GiB \(simulator_memory_gib\).* TiB. Given: 64$",
    ) as error:
        simulators.create("auto", circuits.build("deep", 64), circuits.ring(64), SimulatorLimits(gib * 2.0**30, 32))
    assert "\n" not in str(error.value)


def test_auto_excludes_simulator_above_memory_limit() -> None:
    """Compiled kernels would be faster, but a bundle of 8 samples does not fit in memory."""
    _, network = read_model("deep", 8, Preparation("ry", 8))
    selected = {}
    for memory in (2**31, 2**15):
        limits = SimulatorLimits(memory=memory, batch=32)
        selected[memory] = registry.cheapest(registry.estimates(network, limits), network, limits)
    assert {memory: each.simulator for memory, each in selected.items()} == {
        2**31: "statevector_cpu",
        2**15: "statevector",
    }
    assert selected[2**15].cost.memory < 2**15


@pytest.mark.parametrize("name", ["lightcone", "statevector", "tfq"])
def test_cost_increases_with_batch_size(name: str) -> None:
    def cost(batch: int) -> StepCost:
        (estimate,) = (
            e for e in registry.estimates(network_of("hybrid", 8), SimulatorLimits(2**31, batch)) if e.simulator == name
        )
        return estimate.cost

    assert cost(1).operations <= cost(8).operations <= cost(32).operations <= cost(4096).operations
    # Only TensorFlow Quantum evolves more states than those that the samples span.
    assert (cost(4096).operations > 10 * cost(32).operations) == (name == "tfq")


def test_auto_excludes_simulator_with_separate_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = registry.SIMULATORS["tfq"].DECLARATION
    cheapest = types.SimpleNamespace(
        DECLARATION=declared, estimate=lambda network, limits: StepCost(flops=1.0), check=None
    )
    monkeypatch.setitem(registry.SIMULATORS, "tfq", cheapest)
    # Also where it is installed and the cheapest: other workers may not have it.
    assert choice.cheapest(choice.estimates(NETWORK, LIMITS), NETWORK, LIMITS).simulator != "tfq"
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    estimates = choice.estimates(NETWORK, LIMITS)
    assert [each.simulator for each in estimates if not each.fits] == ["tfq"]
    for function in (registry.check, registry.create):
        with pytest.raises(ConfigError, match=r"published for Linux on x86-64 only. Given: tfq on Linux aarch64$"):
            function("tfq", NETWORK, LIMITS)
