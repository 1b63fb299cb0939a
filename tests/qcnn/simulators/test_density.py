"""Simulator density, compared with Cirq for larger models and random circuits."""

import cirq
import numpy as np
import pytest
import sympy
import tensorflow as tf
from hypothesis import given, settings

from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.circuits.circuits import Ansatz
from qcnn.circuits.preparation import EXCITATION, Preparation
from qcnn.errors import ConfigError
from qcnn.simulators import ExcitationBatch, ProductStateBatch, Simulator, SimulatorLimits
from qcnn.simulators.costs import density as costs
from qcnn.testing.cirq_readouts import readouts_of_batch
from qcnn.testing.simulators import NOISE, Case, SimulatorContract
from qcnn.testing.steps import step
from tests.qcnn.simulators.random_circuits import ansatzes, repeatable

LIMITS = SimulatorLimits(memory=2**31, batch=32)


def create(ansatz: Ansatz, qubits: int, preparation: Preparation = EXCITATION) -> Simulator:
    return simulators.create("density", ansatz, circuits.ring(qubits), LIMITS, preparation, NOISE)


@pytest.mark.long
@pytest.mark.parametrize(("model", "qubits"), [("hybrid", 6), ("deep", 6), ("hybrid", 7), ("deep", 7), ("hybrid", 8)])
def test_larger_noisy_models_equal_cirq(model: str, qubits: int) -> None:
    # Cirq needs 8 s for a state of 8 qubits, and the derivative four states of each sample.
    case = Case(model, qubits, is_noisy=True, batch_size=2 if qubits == 6 else 1)
    SimulatorContract().assert_equals_cirq("density", case, compiled=qubits == 8)


@given(ansatzes(most=4, gates=8))
@settings(repeatable, max_examples=6)
def test_any_circuit_equals_cirq(drawn: tuple[Ansatz, int]) -> None:
    ansatz, qubits = drawn
    values = np.random.default_rng(qubits).uniform(-2, 2, len(ansatz.symbols))
    random = np.random.default_rng(qubits)
    batch = ExcitationBatch(tf.constant([0, qubits - 1]), tf.constant(random.uniform(-3, 3, 2).astype(np.float32)))
    weights = random.normal(size=(2, len(ansatz.readouts)))
    readouts, gradient = step(create(ansatz, qubits), values, batch, weights)
    expected = readouts_of_batch(ansatz, qubits, values, EXCITATION, batch, NOISE)
    np.testing.assert_allclose(readouts, expected, atol=1e-10)
    shift = 1e-4
    for along in shift * np.eye(len(values))[:2]:
        above, below = (
            np.sum(weights * readouts_of_batch(ansatz, qubits, values + s * along, EXCITATION, batch, NOISE))
            for s in (1, -1)
        )
        assert gradient @ along / shift == pytest.approx((above - below) / (2 * shift), abs=1e-6)


@pytest.mark.parametrize("gradient", ["adjoint", "parameter_shift"])
def test_gradient_of_gate_with_irrational_phase_is_exact(gradient: str) -> None:
    ring, t = circuits.ring(2), sympy.Symbol("t")
    # The target is an eigenstate, so the gate's phase rotates the control about Z: <Z> = cos(pi t / 3).
    thirds = cirq.XPowGate(exponent=t, global_shift=1 / 3)(ring[1]).controlled_by(ring[0])
    ansatz = Ansatz(cirq.Circuit(cirq.H.on_each(*ring), thirds, cirq.H(ring[0])), (t,), (ring[0],))
    simulator = simulators.create("density", ansatz, ring, LIMITS, Preparation("rx", 1), gradient=gradient)
    values, batch = np.array([40.3]), ProductStateBatch(tf.constant([[0.0]]))
    readouts, slope = step(simulator, values, batch, np.ones((1, 1)))
    angle = np.pi * values / 3
    np.testing.assert_allclose(readouts[0], np.cos(angle), atol=1e-12)
    np.testing.assert_allclose(slope, -np.pi / 3 * np.sin(angle), atol=1e-12)


def test_density_without_noise_equals_statevector() -> None:
    ansatz = circuits.build("deep", 6)
    values = np.random.default_rng(6).uniform(0, 2, len(ansatz.symbols))
    batch = ExcitationBatch(tf.constant([1, 4]), tf.constant([0.4, -2.0]))
    results = [
        step(simulators.create(name, ansatz, circuits.ring(6), LIMITS), values, batch, np.array([[1.0], [-2]]))
        for name in ("density", "statevector")
    ]
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_auto_with_noise_selects_density() -> None:
    ansatz, ring = circuits.build("hybrid", 4), circuits.ring(4)
    assert simulators.create("auto", ansatz, ring, LIMITS, noise=NOISE).name == "density"
    assert simulators.create("auto", ansatz, ring, LIMITS).name != "density"
    for name in ("lightcone", "statevector", "tfq"):
        with pytest.raises(ConfigError, match=f"^simulator: must be auto or density with noise, .* Given: {name}$"):
            simulators.create(name, ansatz, ring, LIMITS, noise=NOISE)


@pytest.mark.parametrize("name", ["auto", "density"])
def test_density_above_memory_limit_raises(name: str) -> None:
    network = create(circuits.build("deep", 6), 6).network
    need = costs.estimate(network, LIMITS).memory
    costs.check(network, SimulatorLimits(memory=need, batch=32))
    with pytest.raises(
        ConfigError, match=r"^qubits: .*density needs .*simulator_memory_gib.* Given: 6$|^qubits: no simulator"
    ):
        simulators.create(name, network.ansatz, network.ring, SimulatorLimits(memory=need - 1, batch=32), noise=NOISE)
