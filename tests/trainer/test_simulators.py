"""Every simulator against cirq's own, for circuits written independently in tests/reference.py."""

import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from trainer import circuits, simulators
from trainer.simulators import Batch

SIZES = [4, 5, 8, 11]


def _simulator(model: str, qubits: int) -> tuple[simulators.Simulator, int]:
    ansatz = circuits.build(model, qubits)
    return simulators.create("tfq", ansatz, circuits.ring(qubits)), len(ansatz.symbols)


@pytest.mark.parametrize("qubits", SIZES)
@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_readouts_equal_cirq(model: str, qubits: int) -> None:
    random = np.random.default_rng(qubits)
    simulator, count = _simulator(model, qubits)
    parameters = random.uniform(0, 2, count)
    excited = [0, qubits // 2, qubits - 1]
    angles = random.uniform(-np.pi, np.pi, len(excited))
    expected = [reference.expectations(model, qubits, parameters, q, a) for q, a in zip(excited, angles, strict=True)]
    batch = Batch(tf.constant(excited, tf.int32), tf.constant(angles, tf.float32))
    actual = simulator.expectations(tf.constant(parameters), batch)
    assert actual.dtype == tf.float32
    np.testing.assert_allclose(actual, expected, atol=1e-5)


@pytest.mark.parametrize("qubits", SIZES)
@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_gradient_equals_central_differences(model: str, qubits: int) -> None:
    random = np.random.default_rng(100 + qubits)
    simulator, count = _simulator(model, qubits)
    parameters = random.uniform(0, 2, count)
    qubit, angle = 1, 0.7
    weights = random.normal(size=-(-qubits // 2) if model == "hybrid" else 1)
    with tf.GradientTape() as tape:
        variable = tf.constant(parameters)
        tape.watch(variable)
        batch = Batch(tf.constant([qubit], tf.int32), tf.constant([angle], tf.float32))
        loss = tf.reduce_sum(simulator.expectations(variable, batch) * tf.constant(weights, tf.float32))
    gradient = tape.gradient(loss, variable).numpy()
    step = 1e-4
    # Of deep, which has up to 84 parameters, a sample.
    for index in range(count) if count <= 21 else random.choice(count, 12, replace=False):
        shift = step * np.eye(count)[index]
        above, below = (
            weights @ reference.expectations(model, qubits, parameters + sign * shift, qubit, angle) for sign in (1, -1)
        )
        assert gradient[index] == pytest.approx((above - below) / (2 * step), abs=1e-3), index
