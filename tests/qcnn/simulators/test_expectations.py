"""Readouts of larger rings and gradients in double precision, compared with tests/reference.py."""

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from qcnn import simulators
from qcnn.circuits import circuits
from qcnn.simulators import ExcitationBatch, Simulator, SimulatorLimits
from qcnn.testing.steps import step
from tests import reference

Floats = npt.NDArray[np.float64]


def create(name: str, model: str, qubits: int, memory: float = 2**31, real_bytes: int = 4) -> tuple[Simulator, int]:
    ansatz = circuits.build(model, qubits)
    limits = SimulatorLimits(memory=memory, batch=32, real_bytes=real_bytes)
    return simulators.create(name, ansatz, circuits.ring(qubits), limits), len(ansatz.symbols)


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


def test_statevector_double_precision_gradient_is_exact() -> None:
    simulator, count = create("statevector", "deep", 6, real_bytes=8)
    parameters = np.random.default_rng(1).uniform(0, 2, count)
    batch = ExcitationBatch(tf.constant([2], tf.int32), tf.constant([0.5], tf.float32))
    _, gradient = step(simulator, parameters, batch, np.ones((1, 1)))
    shift = 1e-5
    along = shift * np.eye(count)[7]
    above, below = (reference.expectations("deep", 6, parameters + s * along, 2, 0.5)[0] for s in (1, -1))
    assert gradient[7] == pytest.approx((above - below) / (2 * shift), abs=1e-7)
