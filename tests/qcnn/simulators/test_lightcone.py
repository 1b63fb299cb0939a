"""Simulator lightcone, compared with Cirq for gates between parts, random circuits and few readouts."""

import cirq
import numpy as np
import pytest
import sympy
import tensorflow as tf
from hypothesis import given, settings

from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.circuits.circuits import Ansatz
from qcnn.simulators import ExcitationBatch, SimulatorLimits, costs, lightcone
from qcnn.simulators.structure.gates import read_network
from qcnn.simulators.structure.readouts import find_readouts
from qcnn.testing import cirq_readouts
from qcnn.testing.cirq_readouts import Floats
from qcnn.testing.steps import step
from tests.qcnn.simulators.every import EVERY, GENERAL
from tests.qcnn.simulators.random_circuits import ansatzes, repeatable
from tests.qcnn.simulators.structure.test_light_cones import bridged

LIMITS = SimulatorLimits(memory=2**31, batch=32)


def assert_equals_cirq(name: str, ansatz: Ansatz, qubits: int, *, compiled: bool = False) -> None:
    """Compare the readouts of an excitation on every qubit, and the gradient of a sum over two samples."""
    random = np.random.default_rng(qubits)
    simulator = simulators.create(name, ansatz, circuits.ring(qubits), LIMITS)
    values = random.uniform(-2, 2, len(ansatz.symbols))
    excited = [*range(qubits), 1]
    angles = random.uniform(-np.pi, np.pi, len(excited)).astype(np.float32)
    expected = cirq_readouts.readouts_of_excitations(ansatz, qubits, values, excited, angles.tolist())
    weights = np.zeros((len(excited), len(ansatz.readouts)))
    weighed = [0, qubits - 1]
    weights[weighed] = random.normal(size=(2, weights.shape[1]))
    batch = ExcitationBatch(tf.constant(excited, tf.int32), tf.constant(angles))
    readouts, gradient = step(simulator, values, batch, weights, compiled=compiled)
    np.testing.assert_allclose(readouts, expected, atol=1e-5)

    def loss(values: Floats) -> float:
        readouts = cirq_readouts.readouts_of_excitations(
            ansatz, qubits, values, [excited[s] for s in weighed], angles[weighed].tolist()
        )
        return float(np.sum(weights[weighed] * readouts))

    shift = 1e-4
    slopes = [(loss(values + along) - loss(values - along)) / (2 * shift) for along in shift * np.eye(len(values))]
    # If all derivatives are zero, float32 leaves errors of 1e-6.
    np.testing.assert_allclose(gradient, slopes, atol=max(1e-5, 1e-4 * np.abs(gradient).max(initial=0)))


@given(ansatzes())
@settings(repeatable, max_examples=12)
def test_auto_on_random_circuits_equals_cirq(drawn: tuple[Ansatz, int]) -> None:
    assert_equals_cirq("auto", *drawn, compiled=True)


@pytest.mark.parametrize("name", GENERAL)
@given(drawn=ansatzes())
@settings(repeatable, max_examples=25)
def test_simulators_on_random_circuits_equal_cirq(name: str, drawn: tuple[Ansatz, int]) -> None:
    assert_equals_cirq(name, *drawn)


@pytest.mark.parametrize("layer", [0, 1])
def test_lightcone_gate_between_parts_equals_cirq(layer: int) -> None:
    qubits = 16
    ansatz = bridged(qubits, 3, 11, layer)
    random = np.random.default_rng(layer)
    # Small rotations, because all readouts of deep random circuits are close to 0.
    values = np.append(random.uniform(0, 0.4, len(ansatz.symbols) - 1), 0.9)
    simulator = simulators.create("lightcone", ansatz, circuits.ring(qubits), LIMITS)
    excited, angles = [3, 12], [0.75, -2.0]
    readouts, _ = step(
        simulator,
        values,
        ExcitationBatch(tf.constant(excited), tf.constant(angles)),
        np.ones((2, len(ansatz.readouts))),
    )
    expected = [
        cirq_readouts.readouts_of_excitation(ansatz, qubits, values, q, a) for q, a in zip(excited, angles, strict=True)
    ]
    np.testing.assert_allclose(readouts, expected, atol=1e-5)
    # The gate matters: the readouts without it differ.
    without = cirq_readouts.readouts_of_excitation(ansatz, qubits, np.append(values[:-1], 0.0), 3, 0.75)
    assert np.abs(without - expected[0]).max() > 1e-2


@pytest.mark.parametrize("name", [*EVERY, "auto"])
def test_circuit_without_parameters_equals_cirq(name: str) -> None:
    """A fixed circuit may precede trainable layers."""
    ring = circuits.ring(5)
    ansatz = Ansatz(cirq.Circuit(cirq.ry(0.3)(ring[1]), cirq.CNOT(ring[1], ring[4])), (), (ring[4], ring[0], ring[1]))
    simulator = simulators.create(name, ansatz, ring, LIMITS)
    batch = ExcitationBatch(tf.constant([1, 0], tf.int32), tf.constant([0.4, -1.0]))
    expected = [
        cirq_readouts.readouts_of_excitation(ansatz, 5, np.zeros(0), 1, 0.4),
        cirq_readouts.readouts_of_excitation(ansatz, 5, np.zeros(0), 0, -1.0),
    ]
    readouts = simulator.expectations(tf.zeros([0], tf.float64), batch).numpy()
    np.testing.assert_allclose(readouts, expected, atol=1e-5)


SYMBOL = sympy.Symbol("t")
PLACE = cirq.GridQubit(0, 1)
ROTATED = cirq.X(PLACE) ** SYMBOL
PHASE = cirq.global_phase_operation(1j**0.7)


@pytest.mark.parametrize("name", [*EVERY, "auto"])
@pytest.mark.parametrize(
    ("operations", "run_by_tfq"),
    [
        pytest.param([PHASE, ROTATED, PHASE], True, id="first and last"),
        pytest.param([PHASE], True, id="nothing else"),
        pytest.param([PHASE.with_tags("mine"), ROTATED], True, id="tagged"),
        pytest.param([cirq.GlobalPhaseGate(sympy.exp(sympy.I * SYMBOL))(), ROTATED], True, id="of a parameter"),
        pytest.param(
            [PHASE.controlled_by(cirq.GridQubit(0, 1)), cirq.H(cirq.GridQubit(0, 1)), ROTATED], True, id="ctrl"
        ),
        pytest.param(
            [cirq.CircuitOperation(cirq.FrozenCircuit(PHASE, ROTATED), use_repetition_ids=False)], False, id="circuit"
        ),
        pytest.param(
            [cirq.DiagonalGate(np.linspace(0, 3, 32).tolist())(*circuits.ring(5)), ROTATED], False, id="decomposed"
        ),
    ],
)
def test_global_phase_does_not_change_readouts(name: str, operations: list[cirq.Operation], run_by_tfq: bool) -> None:
    if name == "tfq" and not run_by_tfq:
        pytest.skip("TensorFlow Quantum does not support this gate")
    ring = circuits.ring(5)
    circuit = cirq.Circuit(operations)
    ansatz = Ansatz(circuit, (SYMBOL,) if cirq.is_parameterized(circuit) else (), (ring[1], ring[4]))
    assert_equals_cirq(name, ansatz, 5)


def operations(qubits: int) -> int:
    """Return the number of operations in the graph of the readouts and their gradient."""
    network = read_network(circuits.build("hybrid", qubits), circuits.ring(qubits))
    simulator = lightcone.create(network, LIMITS)

    @tf.function(autograph=False)
    def gradient(parameters: tf.Tensor, qubit: tf.Tensor, angle: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            total = tf.reduce_sum(simulator.expectations(parameters, ExcitationBatch(qubit, angle)))
        return tape.gradient(total, parameters)

    batch = tf.zeros(32, tf.int32), tf.zeros(32)
    traced = gradient.get_concrete_function(tf.zeros(network.parameters, tf.float64), *batch)
    return len(traced.graph.get_operations())


def test_lightcone_program_size_is_independent_of_ring_length() -> None:
    even, long, odd = (operations(qubits) for qubits in (24, 1024, 23))
    assert abs(long - even) < 5
    # Five distinct readouts instead of two.
    assert odd < 2 * even


def test_find_readouts_is_cached() -> None:
    network = read_network(circuits.build("hybrid", 24), circuits.ring(24))
    found = find_readouts(network)
    costs.lightcone.estimate(network, LIMITS)
    assert lightcone.create(network, LIMITS)._readouts is found


def test_lightcone_readout_without_gates_is_zero() -> None:
    """Z on a qubit of a cluster state is 0 for any rotation."""
    ring, t = circuits.ring(6), sympy.Symbol("t")
    ansatz = Ansatz(cirq.Circuit(cirq.X(ring[0]) ** t), (t,), (ring[3],))
    simulator = simulators.create("lightcone", ansatz, ring, LIMITS)
    readouts, gradient = step(
        simulator, np.array([0.3]), ExcitationBatch(tf.constant([3], tf.int32), tf.constant([0.7])), np.ones((1, 1))
    )
    np.testing.assert_allclose(readouts, [[0.0]], atol=1e-7)
    np.testing.assert_allclose(gradient, [0.0], atol=1e-7)
