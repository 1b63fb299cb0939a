"""Errors of complex64 in deep circuits, whose gates would change the norms of states in one direction."""

import dataclasses

import cirq
import numpy as np
import pytest
import sympy
import tensorflow as tf

from benchmarks.precision import hadamard_layers
from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.circuits.ansatz import Ansatz
from qcnn.circuits.preparation import Kind, Preparation
from qcnn.simulators import ExcitationBatch, Inputs, ProductStateBatch, Simulator, SimulatorLimits, StateBatch, costs
from qcnn.testing.cirq_readouts import Floats, readouts_of_samples
from qcnn.testing.steps import step

# XLA compiles fewer layers in a short time.
LAYERS = {"statevector_cpu": 200, "statevector": 20}
READOUT_ERROR, GRADIENT_ERROR = 2e-6, 5e-6
# Three samples do not fill a bundle of eight.
LIMITS = SimulatorLimits(2**31, 3)

of_both_simulators = pytest.mark.parametrize(
    ("name", "qubits"), [("statevector_cpu", 8), ("statevector_cpu", 12), ("statevector", 12)]
)


def create(
    name: str, ansatz: Ansatz, qubits: int, preparation: Preparation, limits: SimulatorLimits = LIMITS
) -> Simulator:
    return simulators.create(name, ansatz, circuits.ring(qubits), limits, preparation)


def assert_close_to_complex128(
    name: str, qubits: int, preparation: Preparation, batch: Inputs, limits: SimulatorLimits = LIMITS
) -> tuple[Floats, Floats]:
    """Assert that errors of layers of H and CZ are small, and return the parameters and the readouts."""
    ansatz = hadamard_layers(qubits, LAYERS[name])
    random = np.random.default_rng(qubits)
    values, weights = random.uniform(0, 2, len(ansatz.symbols)), np.zeros((batch[0].shape[0], qubits))
    weights[1, -1] = 1
    double = create(name, ansatz, qubits, preparation, dataclasses.replace(LIMITS, real_bytes=8))
    readouts, gradient = step(create(name, ansatz, qubits, preparation, limits), values, batch, weights, compiled=True)
    # Not compiled, which takes less time for a single step.
    expected, expected_gradient = step(double, values, batch, weights)
    np.testing.assert_allclose(readouts, expected, rtol=0, atol=READOUT_ERROR)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=0, atol=GRADIENT_ERROR)
    return values, readouts


@of_both_simulators
def test_complex64_readout_of_eigenstate_is_exact(name: str, qubits: int) -> None:
    ring, symbol = circuits.ring(qubits), sympy.Symbol("w")
    ladder = [cirq.CNOT(*ring[place : place + 2]) for place in range(qubits - 1)]
    ansatz = Ansatz(cirq.Circuit(cirq.H.on_each(*ring), ladder, cirq.Z(ring[0]) ** symbol), (symbol,), (ring[-1],))
    batch = ProductStateBatch(tf.zeros([3, qubits]))
    simulator = create(name, ansatz, qubits, Preparation("rz", qubits))
    readouts, gradient = step(simulator, np.array([0.3]), batch, np.ones((3, 1)))
    np.testing.assert_allclose(readouts, 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(gradient, 0, rtol=0, atol=1e-6)


@of_both_simulators
@pytest.mark.parametrize("kind", ["ry", "rz"])
def test_complex64_error_does_not_grow_with_layers(name: str, qubits: int, kind: Kind) -> None:
    angles = np.random.default_rng(1).uniform(-np.pi, np.pi, (3, qubits)).astype(np.float32)
    preparation = Preparation(kind, qubits)
    values, readouts = assert_close_to_complex128(name, qubits, preparation, ProductStateBatch(tf.constant(angles)))
    if qubits == 8:
        ansatz, features = hadamard_layers(qubits, LAYERS[name]), angles.astype(np.float64)
        expected = readouts_of_samples(ansatz, qubits, values, preparation, features)
        np.testing.assert_allclose(readouts, expected, rtol=0, atol=READOUT_ERROR)


@pytest.mark.parametrize("name", ["statevector_cpu", "statevector"])
def test_complex64_error_of_spanning_states_is_small(name: str) -> None:
    random = np.random.default_rng(2)
    angles = tf.constant(random.uniform(-np.pi, np.pi, 40), tf.float32)
    batch = ExcitationBatch(tf.constant(random.integers(0, 12, 40), tf.int32), angles)
    assert_close_to_complex128(name, 12, Preparation(), batch, SimulatorLimits(2**31, 40))


def test_complex64_error_of_one_state_at_a_time_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs.statevector_cpu, "ONE_STATE_QUBITS", 14)
    angles = np.random.default_rng(3).uniform(-np.pi, np.pi, (2, 14)).astype(np.float32)
    assert_close_to_complex128("statevector_cpu", 14, Preparation("ry", 14), ProductStateBatch(tf.constant(angles)))


def test_complex64_gradient_in_chunks_is_finite() -> None:
    states = np.random.default_rng(4).normal(size=(3, 2**12))
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    # Zero states fill the second chunk of two.
    memory = (3 * 4 + 2.5 * 2 * 4 * 7) * 2**12
    batch = StateBatch(tf.constant(states, tf.float32))
    assert_close_to_complex128("statevector", 12, Preparation("state"), batch, SimulatorLimits(memory, 3))
