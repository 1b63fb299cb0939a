"""Which simulator is taken, and what it would cost, without running one."""

import functools
import logging

import pytest

from qcnn.trainer import simulators
from qcnn.trainer.errors import ConfigError
from qcnn.trainer.quantum import circuits
from qcnn.trainer.simulators import Limits, choice, costs, statevector, window
from qcnn.trainer.simulators.costs.cost import Cost
from qcnn.trainer.simulators.structure.gates import Network, read_network

LIMITS = Limits(memory=2**31, batch=32)


@functools.cache
def network_of(model: str, qubits: int) -> Network:
    return read_network(circuits.build(model, qubits), circuits.ring(qubits))


def chosen(model: str, qubits: int, limits: Limits = LIMITS) -> str:
    network = network_of(model, qubits)
    return choice.cheapest(choice.estimates(network, limits), network, limits).simulator


@pytest.mark.parametrize("qubits", [12, 23, 24, 64, 1024])
def test_hybrid_takes_windows(qubits: int) -> None:
    assert chosen("hybrid", qubits) == "window"


@pytest.mark.parametrize("qubits", [8, 16, 20])
def test_deep_takes_state_vectors(qubits: int) -> None:
    assert chosen("deep", qubits) == "statevector"


def test_auto_creates_what_is_cheapest_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    for model, qubits, kind in (("hybrid", 24, window.Window), ("deep", 16, statevector.StateVector)):
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="qcnn"):
            ansatz = circuits.build(model, qubits)
            assert isinstance(simulators.create("auto", ansatz, circuits.ring(qubits), LIMITS), kind)
        name = "window" if model == "hybrid" else "statevector"
        assert caplog.messages == [f"simulator: {name}, the cheapest that is exact and fits"]


@pytest.mark.parametrize("gib", [2, 64])
def test_what_nothing_can_run_is_refused_in_one_line(gib: int) -> None:
    with pytest.raises(
        ConfigError, match=rf"^qubits: no simulator can run this circuit in {gib} GiB \(memory_gib\).* TiB. Given: 64$"
    ) as error:
        simulators.create("auto", circuits.build("deep", 64), circuits.ring(64), Limits(gib * 2.0**30, 32))
    assert "\n" not in str(error.value)


def test_a_simulator_that_does_not_fit_is_not_taken() -> None:
    """State vectors would be faster for `hybrid` at n = 11, which no memory for two of them rules out."""
    network = network_of("hybrid", 11)
    least = 2 * costs.statevector._column_bytes(network, LIMITS)
    needs = {estimate.simulator: estimate.cost.memory for estimate in choice.estimates(network, LIMITS)}
    assert needs["window"] < least or needs["tfq"] < least
    estimates = choice.estimates(network, Limits(memory=least - 1, batch=32))
    fits = {estimate.simulator: estimate.fits for estimate in estimates}
    assert not fits["statevector"]
    taken = choice.cheapest(estimates, network, Limits(memory=least - 1, batch=32))
    assert taken.fits


@pytest.mark.parametrize("name", ["window", "statevector", "tfq"])
def test_larger_batches_never_cost_less(name: str) -> None:
    def cost(batch: int) -> Cost:
        (estimate,) = (
            e for e in choice.estimates(network_of("hybrid", 8), Limits(2**31, batch)) if e.simulator == name
        )
        return estimate.cost

    assert cost(1).operations <= cost(8).operations <= cost(32).operations <= cost(4096).operations
    # Beyond the states that all samples span, only TensorFlow Quantum evolves more.
    assert (cost(4096).operations > 10 * cost(32).operations) == (name == "tfq")
