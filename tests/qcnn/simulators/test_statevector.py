"""Simulator statevector under a memory limit, in double precision, and split by qubit."""

import numpy as np
import pytest
import tensorflow as tf

from qcnn.circuits import circuits
from qcnn.simulators import ExcitationBatch, SimulatorLimits, costs, statevector
from qcnn.simulators.evolution import evolve
from qcnn.simulators.structure.gates import read_network
from qcnn.simulators.structure.network import CircuitIR
from qcnn.testing.cirq_readouts import Floats
from qcnn.testing.steps import step
from tests import reference

QUBITS = 5
# Memory of a complex64 state vector, in bytes.
COLUMN = 2**QUBITS * 8 * costs.statevector._COPIES
RANDOM = np.random.default_rng(0)
PARAMETERS = RANDOM.uniform(0, 2, 21)
# Batches of at most 5 samples evolve the samples, larger ones the spanning states.
BATCHES = {
    size: ExcitationBatch(
        tf.constant(RANDOM.integers(0, QUBITS, size), tf.int32), tf.constant(RANDOM.uniform(-3, 3, size), tf.float32)
    )
    for size in (5, 40)
}


def network_of(qubits: int, model: str = "hybrid") -> CircuitIR:
    return read_network(circuits.build(model, qubits), circuits.ring(qubits))


def weights_of(size: int) -> Floats:
    return np.random.default_rng(size).normal(size=(size, 3))


@pytest.fixture(autouse=True)
def use_complex64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use complex64, as for many qubits."""
    monkeypatch.setattr(costs.statevector, "FEW_AMPLITUDES", 0)


@pytest.mark.parametrize("columns", [2, 4])
@pytest.mark.parametrize("size", [5, 40])
def test_statevector_chunked_batch_equals_whole_batch(monkeypatch: pytest.MonkeyPatch, size: int, columns: int) -> None:
    sizes = []

    def evolve_and_count(*args: object, **options: object) -> tf.Tensor:
        sizes.append(args[1].shape[0])  # type: ignore[attr-defined]
        return evolve(*args, **options)  # type: ignore[arg-type]

    whole = statevector.create(network_of(QUBITS), SimulatorLimits(memory=2**31, batch=32))
    expected_readouts, expected_gradient = step(whole, PARAMETERS, BATCHES[size], weights_of(size))
    monkeypatch.setattr(statevector, "evolve", evolve_and_count)
    limits = SimulatorLimits(memory=columns * COLUMN + 1, batch=32)
    network = network_of(QUBITS)
    simulator = statevector.create(network, limits)
    readouts, gradient = step(simulator, PARAMETERS, BATCHES[size], weights_of(size), compiled=True)
    assert 0 < max(sizes) <= columns
    np.testing.assert_allclose(readouts, expected_readouts, atol=1e-6)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-5 * np.abs(expected_gradient).max())
    assert costs.statevector.estimate(network, limits).memory <= limits.memory


def test_statevector_complex128_gradient_is_more_accurate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few amplitudes use complex128 by default."""
    batch, weights = BATCHES[5], np.ones((5, 3))
    shift = 1e-4

    def loss(values: Floats) -> float:
        samples = zip(batch.qubit.numpy(), batch.angle.numpy().astype(np.float64), strict=True)
        return sum(float(reference.expectations("hybrid", QUBITS, values, q, a).sum()) for q, a in samples)

    chosen = [0, 7, 17]
    shifts = shift * np.eye(21)[chosen]
    # Fourth-order differences, which are more accurate than both precisions.
    slopes = [
        (8 * (loss(PARAMETERS + s) - loss(PARAMETERS - s)) - loss(PARAMETERS + 2 * s) + loss(PARAMETERS - 2 * s))
        / (12 * shift)
        for s in shifts
    ]
    errors = {}
    for real_bytes in (4, 8):
        simulator = statevector.create(
            network_of(QUBITS), SimulatorLimits(memory=2**31, batch=32, real_bytes=real_bytes)
        )
        _, gradient = step(simulator, PARAMETERS, batch, weights)
        errors[real_bytes] = np.abs(gradient[chosen] - slopes).max()
    assert errors[8] < 1e-9
    assert 1e-8 < errors[4] < 1e-4
    monkeypatch.undo()
    _, gradient = step(
        statevector.create(network_of(QUBITS), SimulatorLimits(memory=2**31, batch=32)), PARAMETERS, batch, weights
    )
    assert np.abs(gradient[chosen] - slopes).max() < 1e-9


@pytest.mark.parametrize(
    ("shares", "columns"), [([[0, 1], [2, 3], [4, -1]], 2), ([[0], [1], [2], [3], [4], [-1]], 12)], ids=str
)
def test_gradients_split_by_qubit_sum_to_whole_gradient(shares: list[list[int]], columns: int) -> None:
    """One qubit has no sample, and one share has no qubit. Low memory uses chunks."""
    limits = SimulatorLimits(memory=2 * columns * COLUMN, batch=40, real_bytes=8)
    simulator = statevector.create(network_of(QUBITS), limits)
    qubit, angle, _ = BATCHES[40]
    qubit = tf.where(qubit == 1, 3, qubit)
    weights = weights_of(40)
    readouts, gradient = step(simulator, PARAMETERS, ExcitationBatch(qubit, angle), weights)
    total = np.zeros_like(gradient)
    for own in shares:
        mine = np.isin(qubit, own)
        batch = ExcitationBatch(qubit, angle, tf.constant(own))
        shared, of_share = step(simulator, PARAMETERS, batch, weights * mine[:, None])
        np.testing.assert_allclose(shared[mine], readouts[mine], atol=1e-7)
        assert np.isfinite(shared).all()
        total += of_share
    np.testing.assert_allclose(total, gradient, atol=1e-8)
