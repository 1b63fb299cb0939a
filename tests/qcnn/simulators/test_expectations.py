"""All simulators, compared with Cirq for the independent circuits of tests/reference.py."""

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.simulators import ExcitationBatch, Simulator, SimulatorLimits
from tests import reference
from tests.qcnn.simulators.step import step

Floats = npt.NDArray[np.float64]


def create(name: str, model: str, qubits: int, memory: float = 2**31, real_bytes: int = 4) -> tuple[Simulator, int]:
    ansatz = circuits.build(model, qubits)
    limits = SimulatorLimits(memory=memory, batch=32, real_bytes=real_bytes)
    return simulators.create(name, ansatz, circuits.ring(qubits), limits), len(ansatz.symbols)


def every_qubit(qubits: int, random: np.random.Generator) -> tuple[list[int], Floats]:
    """Return one excitation on every qubit of the ring, and one more."""
    excited = [*range(qubits), 1]
    return excited, random.uniform(-np.pi, np.pi, len(excited)).astype(np.float32).astype(np.float64)


class Expected(NamedTuple):
    """Cirq's readouts of a batch, and some derivatives of their weighted sum."""

    parameters: Floats
    batch: ExcitationBatch
    weights: Floats
    readouts: list[Floats]
    chosen: npt.NDArray[np.int64]
    slopes: list[float]


@functools.cache
def by_cirq(model: str, qubits: int) -> Expected:
    """Simulate a model with Cirq, once for all simulators."""
    random = np.random.default_rng(qubits)
    count = len(circuits.build(model, qubits).symbols)
    parameters = random.uniform(0, 2, count)
    excited, angles = every_qubit(qubits, random)
    readouts = [reference.expectations(model, qubits, parameters, q, a) for q, a in zip(excited, angles, strict=True)]
    weights = np.zeros((len(excited), len(readouts[0])))
    weighed = [0, qubits - 1]
    weights[weighed] = random.normal(size=(2, weights.shape[1]))

    def loss(values: Floats) -> float:
        return sum(
            float(weights[s] @ reference.expectations(model, qubits, values, excited[s], angles[s])) for s in weighed
        )

    shift = 1e-4
    chosen = np.arange(count) if qubits < 6 else random.choice(count, 4, replace=False)
    slopes = [
        (loss(parameters + along) - loss(parameters - along)) / (2 * shift) for along in shift * np.eye(count)[chosen]
    ]
    batch = ExcitationBatch(tf.constant(excited, tf.int32), tf.constant(angles, tf.float32))
    return Expected(parameters, batch, weights, readouts, chosen, slopes)


@pytest.mark.parametrize("qubits", range(4, 13))
@pytest.mark.parametrize("model", ["hybrid", "deep"])
@pytest.mark.parametrize(
    "name", ["lightcone", "statevector", "statevector_cpu", pytest.param("tfq", marks=pytest.mark.tfq)]
)
def test_readouts_and_gradient_equal_cirq(name: str, model: str, qubits: int) -> None:
    if name == "tfq" and qubits not in (4, 5, 8, 11):
        pytest.skip("TensorFlow Quantum is the reference of others; its own code is tested by its authors")
    expected = by_cirq(model, qubits)
    simulator, _ = create(name, model, qubits)
    # Compiled, as in training, for odd and even rings below and above the switch to complex64.
    readouts, gradient = step(
        simulator, expected.parameters, expected.batch, expected.weights, compiled=qubits in (5, 8, 12)
    )
    np.testing.assert_allclose(readouts, expected.readouts, atol=1e-5)
    # TensorFlow Quantum differentiates gates numerically, in float32.
    tolerance = 1e-3 if name == "tfq" else 1e-4 * np.abs(gradient).max()
    np.testing.assert_allclose(gradient[expected.chosen], expected.slopes, atol=tolerance)


@pytest.mark.parametrize(("qubits", "sample"), [(16, 15), (20, 7)])
def test_readouts_of_larger_rings_equal_cirq(qubits: int, sample: int) -> None:
    random = np.random.default_rng(qubits)
    (simulator, count), (other, _) = (create(name, "hybrid", qubits) for name in ("lightcone", "statevector"))
    parameters = random.uniform(0, 2, count)
    expected = reference.expectations("hybrid", qubits, parameters, sample, 0.75)
    batch = ExcitationBatch(tf.constant([sample], tf.int32), tf.constant([0.75], tf.float32))
    weights = random.normal(size=(1, len(expected)))
    readouts, gradient = step(simulator, parameters, batch, weights, compiled=True)
    # Not compiled, which takes less time for a single step.
    other_readouts, other_gradient = step(other, parameters, batch, weights)
    for found in (readouts, other_readouts):
        np.testing.assert_allclose(found[0], expected, atol=1e-5)
    np.testing.assert_allclose(gradient, other_gradient, atol=1e-4 * np.abs(gradient).max())


@pytest.mark.parametrize("qubits", [23, 64, 1024])
def test_readouts_of_long_rings_equal_reference_light_cone(qubits: int) -> None:
    random = np.random.default_rng(qubits)
    simulator, count = create("auto", "hybrid", qubits)
    parameters = random.uniform(0, 2, count)
    # Both ends of the ring, both sides of its middle, and a random qubit.
    excited = [0, 1, qubits - 1, qubits - 2, qubits // 2, qubits // 2 - 1, int(random.integers(qubits))]
    angles = random.uniform(-np.pi, np.pi, len(excited)).astype(np.float32)
    batch = ExcitationBatch(tf.constant(excited, tf.int32), tf.constant(angles))
    readouts, _ = step(simulator, parameters, batch, np.ones((len(excited), 1)), compiled=True)
    count = readouts.shape[1]
    sources = qubits // 2
    for sample, (qubit, angle) in enumerate(zip(excited, angles, strict=True)):
        near = {(qubit + step) % qubits for step in range(-2, 3)}
        reached = {q if q < sources else q - sources for q in near} & set(range(count))
        for readout in {*reached, count - 1}:
            expected = reference.light_cone(qubits, parameters, qubit, float(angle), readout)
            assert readouts[sample, readout] == pytest.approx(expected, abs=1e-5), (qubit, readout)


@pytest.mark.parametrize("name", ["lightcone", "statevector"])
def test_expectations_do_not_depend_on_batch_size(name: str) -> None:
    """Small batches evolve samples, large ones the spanning states, also if the size is dynamic."""
    simulator, count = create(name, "hybrid", 6)
    random = np.random.default_rng(0)
    parameters = tf.constant(random.uniform(0, 2, count))
    qubit, angle = tf.constant(random.integers(0, 6, 40), tf.int32), tf.constant(random.uniform(-3, 3, 40), tf.float32)
    every = simulator.expectations(parameters, ExcitationBatch(qubit, angle)).numpy()
    few = simulator.expectations(parameters, ExcitationBatch(qubit[:3], angle[:3])).numpy()
    np.testing.assert_allclose(few, every[:3], atol=1e-6)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float32)], autograph=False)
    def of_any_size(qubit: tf.Tensor, angle: tf.Tensor) -> tf.Tensor:
        return simulator.expectations(parameters, ExcitationBatch(qubit, angle))

    for size in (0, 1, 40):
        np.testing.assert_allclose(of_any_size(qubit[:size], angle[:size]).numpy(), every[:size], atol=1e-6)


@pytest.mark.parametrize("model", ["hybrid", "deep"])
@pytest.mark.parametrize(
    "name", ["lightcone", "statevector", "statevector_cpu", pytest.param("tfq", marks=pytest.mark.tfq)]
)
def test_table_equals_expectations(name: str, model: str) -> None:
    qubits, random = 7, np.random.default_rng(3)
    simulator, count = create(name, model, qubits)
    parameters = tf.constant(random.uniform(0, 2, count))
    qubit, angle = random.integers(0, qubits, 20), random.uniform(-np.pi, np.pi, 20).astype(np.float32)
    expected = simulator.expectations(
        parameters, ExcitationBatch(tf.constant(qubit, tf.int32), tf.constant(angle))
    ).numpy()
    table = simulator.table(parameters)
    readouts = np.tile(table.unexcited.numpy(), (len(qubit), 1))
    for sample, (excited, turn) in enumerate(zip(qubit, angle, strict=True)):
        change = (1 - np.cos(turn)) / 2 * table.flipped[excited] + np.sin(turn) / 2 * table.mixed[excited]
        # A readout may occur in several columns, of which only one is nonzero.
        np.add.at(readouts[sample], table.reached[excited].numpy(), change.numpy())
    np.testing.assert_allclose(readouts, expected, atol=1e-5)


def test_statevector_double_precision_gradient_is_exact() -> None:
    simulator, count = create("statevector", "deep", 6, real_bytes=8)
    parameters = np.random.default_rng(1).uniform(0, 2, count)
    batch = ExcitationBatch(tf.constant([2], tf.int32), tf.constant([0.5], tf.float32))
    _, gradient = step(simulator, parameters, batch, np.ones((1, 1)))
    shift = 1e-5
    along = shift * np.eye(count)[7]
    above, below = (reference.expectations("deep", 6, parameters + s * along, 2, 0.5)[0] for s in (1, -1))
    assert gradient[7] == pytest.approx((above - below) / (2 * shift), abs=1e-7)
