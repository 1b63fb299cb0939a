"""Simulator tfq, compared with Cirq, and its errors for unsupported gates."""

from collections.abc import Iterator

import cirq
import numpy as np
import pytest
import sympy
import tensorflow as tf

from qcnn import simulators
from qcnn.circuits.circuits import Ansatz
from qcnn.errors import ConfigError, single_line
from qcnn.simulators import ExcitationBatch, SimulatorLimits
from qcnn.testing import cirq_readouts
from tests.qcnn.simulators.structure.test_gates import ONE_QUBIT, TWO_QUBITS, A, B, C, Q

pytestmark = pytest.mark.tfq

LIMITS = SimulatorLimits(memory=2**30, batch=4)
# Gates without symmetries, so that the readouts depend on every symbol and operation.
BEFORE = [[cirq.X(q) ** (0.1 + 0.17 * i), cirq.Y(q) ** 0.3] for i, q in enumerate(Q)]
AFTER = [[cirq.X(q) ** 0.27 for q in Q], *(cirq.Y(q) ** symbol for q, symbol in zip(Q, (A, B, C), strict=False))]


def operations() -> Iterator[cirq.Operation]:
    """Yield supported operations, plain and controlled."""
    for operation in [*(gate(Q[2]) for gate in ONE_QUBIT), *(gate(Q[3], Q[1]) for gate in TWO_QUBITS)]:
        yield operation
        yield operation.controlled_by(Q[0], Q[4], control_values=[0, 1])
    yield cirq.X(Q[0]).controlled_by(Q[1], Q[2], control_values=cirq.SumOfProducts([(0, 1), (1, 0)]))


def test_tfq_supported_operations_equal_cirq() -> None:
    values = np.array([0.37, -1.2, 2.3])
    supported, errors = 0, []
    for operation in operations():
        simple = cirq.resolve_parameters(operation, {"b": 0.25 + 0.0, "a": -1.5 * A}, recursive=False)
        for variant in (operation, simple):
            ansatz = Ansatz(cirq.Circuit(BEFORE, variant, AFTER), (A, B, C), tuple(Q))
            try:
                simulator = simulators.create("tfq", ansatz, Q, LIMITS)
            except ConfigError as error:
                errors.append(str(error))
                continue
            supported += 1
            batch = ExcitationBatch(tf.constant([1], tf.int32), tf.constant([0.7]))
            readouts = simulator.expectations(tf.constant(values), batch).numpy()[0]
            expected = cirq_readouts.readouts_of_excitation(ansatz, 5, values, 1, 0.7)
            np.testing.assert_allclose(readouts, expected, atol=1e-5, err_msg=str(variant))
    assert (supported > 50, len(errors) > 50) == (True, True)
    assert all(message.startswith("model: TensorFlow Quantum does not support this gate") for message in errors)


@pytest.mark.parametrize(
    "operation",
    [
        cirq.X(Q[0]) ** (2 * A - B + 0.25),
        cirq.CCX(Q[3], Q[0], Q[2]) ** A,
        cirq.MatrixGate(cirq.testing.random_unitary(2, random_state=1))(Q[0]),
        # The library silently reads this gate with other controls.
        cirq.X(Q[0]).controlled_by(Q[1], Q[2], control_values=cirq.SumOfProducts([(0, 1), (1, 0)])),
    ],
    ids=str,
)
def test_tfq_unsupported_operation_raises(operation: cirq.Operation) -> None:
    ansatz = Ansatz(cirq.Circuit(cirq.CNOT(Q[0], Q[1]), operation, AFTER), (A, B, C), (Q[0],))
    with pytest.raises(ConfigError) as error:
        simulators.create("tfq", ansatz, Q, LIMITS)
    assert str(error.value).endswith(f"use another simulator. Given: {single_line(operation)}")
    for name in ("lightcone", "statevector", "auto"):
        simulators.create(name, ansatz, Q, LIMITS)


def test_tfq_symbol_named_like_excitation_angle_is_supported() -> None:
    angle = sympy.Symbol("excitation_angle", real=True)
    ansatz = Ansatz(cirq.Circuit(BEFORE, cirq.X(Q[1]) ** angle), (angle,), (Q[1],))
    simulator = simulators.create("tfq", ansatz, Q, LIMITS)
    batch = ExcitationBatch(tf.constant([1], tf.int32), tf.constant([0.7]))
    readouts = simulator.expectations(tf.constant([0.3], tf.float64), batch).numpy()[0]
    expected = cirq_readouts.readouts_of_excitation(ansatz, 5, np.array([0.3]), 1, 0.7)
    np.testing.assert_allclose(readouts, expected, atol=1e-5)
