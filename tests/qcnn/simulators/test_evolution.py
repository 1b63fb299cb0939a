"""Evolution of state vectors and its gradient, compared with Cirq."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

from qcnn.circuits import circuits
from qcnn.circuits.circuits import Ansatz
from qcnn.simulators.evolution import GroupUnitaries, evolve, on_last, real_forms
from qcnn.simulators.structure.gate_fusion import fuse, group_blocks
from qcnn.simulators.structure.gates import read_network
from qcnn.simulators.structure.network import CircuitIR
from qcnn.testing.cirq_readouts import Complex
from tests.qcnn.simulators.random_circuits import ansatzes, assert_equal_up_to_phase, repeatable, unitary


def basis_states(qubits: int, dtype: tf.DType = tf.float64) -> tf.Tensor:
    identity = tf.eye(2**qubits, dtype=dtype)
    return tf.stack([identity, tf.zeros_like(identity)], axis=2)


def evolved(network: CircuitIR, values: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
    groups = group_blocks(fuse(network.gates))
    unitaries = GroupUnitaries(groups, network.parameters)
    forms = real_forms(unitaries(values), states.dtype)
    matrices = [on_last(forms[unitaries.index(group)], len(group.qubits)) for group in groups]
    return evolve([group.qubits for group in groups], states, matrices)


def columns(network: CircuitIR, values: tf.Tensor, dtype: tf.DType = tf.float64) -> Complex:
    """Return the unitary, whose columns are the evolved basis states."""
    final = evolved(network, values, basis_states(network.qubits, dtype)).numpy()
    result: Complex = (final[..., 0] + 1j * final[..., 1]).T
    return result


@given(ansatzes())
@settings(repeatable, max_examples=50)
def test_evolve_basis_states_gives_cirq_unitary(drawn: tuple[Ansatz, int]) -> None:
    ansatz, qubits = drawn
    network = read_network(ansatz, circuits.ring(qubits))
    values = np.random.default_rng(0).uniform(-2, 2, len(ansatz.symbols))
    expected = unitary(ansatz.circuit, ansatz.symbols, values, qubits)
    assert_equal_up_to_phase(columns(network, tf.constant(values, tf.float64)), expected)


@pytest.mark.parametrize(("model", "qubits"), [("hybrid", 7), ("deep", 8)])
def test_evolve_built_in_models_equals_cirq(model: str, qubits: int) -> None:
    ansatz = circuits.build(model, qubits)
    values = np.random.default_rng(qubits).uniform(0, 2, len(ansatz.symbols))
    network = read_network(ansatz, circuits.ring(qubits))
    expected = unitary(ansatz.circuit, ansatz.symbols, values, qubits)
    assert_equal_up_to_phase(columns(network, tf.constant(values)), expected, atol=1e-10)
    # In single precision.
    assert_equal_up_to_phase(columns(network, tf.constant(values), tf.float32), expected, atol=1e-5)


@given(ansatzes(most=6, gates=10))
@settings(repeatable, max_examples=30)
def test_evolve_gradient_equals_finite_differences(drawn: tuple[Ansatz, int]) -> None:
    ansatz, qubits = drawn
    random = np.random.default_rng(1)
    values = random.uniform(-2, 2, len(ansatz.symbols))
    network = read_network(ansatz, circuits.ring(qubits))
    weights = random.normal(size=(2**qubits, 2**qubits, 2))

    def overlap(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(evolved(network, values, basis_states(qubits)) * weights)

    parameters = tf.constant(values, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        total = overlap(parameters)
    gradient = tape.gradient(total, parameters, unconnected_gradients="zero").numpy()
    step = 1e-5
    slopes = [(overlap(values + shift) - overlap(values - shift)) / (2 * step) for shift in step * np.eye(len(values))]
    np.testing.assert_allclose(gradient, slopes, atol=1e-6 * max(1.0, np.abs(gradient).max(initial=0)))
