"""Two circuits in one Keras model, each after a classical layer, trained end to end."""

import cirq
import numpy as np
import pytest

import qcnn
from examples import keras_circuits
from examples.keras_circuits import build, dressed, images


def test_circuit_equals_cirq() -> None:
    """Compare with gates written down again: RY on |+>, then CNOT on neighbors, even pairs first, and RY."""
    random = np.random.default_rng(1)
    weights, row = random.uniform(-2, 2, 12), random.uniform(-2, 2, 4)
    qubits = cirq.LineQubit.range(4)
    gates = [gate for q, x in zip(qubits, row, strict=True) for gate in (cirq.H(q), cirq.ry(x)(q))]
    for layer in weights.reshape(3, 4):
        gates += [cirq.CNOT(qubits[0], qubits[1]), cirq.CNOT(qubits[2], qubits[3]), cirq.CNOT(qubits[1], qubits[2])]
        gates += [cirq.ry(angle)(qubit) for qubit, angle in zip(qubits, layer, strict=True)]
    state = cirq.Simulator(dtype=np.complex128).simulate(cirq.Circuit(gates)).final_state_vector
    place = {qubit: number for number, qubit in enumerate(qubits)}
    expected = [(1.0 * cirq.Z(qubit)).expectation_from_state_vector(state, place).real for qubit in qubits]
    np.testing.assert_allclose(qcnn.expectations(dressed(), weights, [row]), [expected], atol=1e-12)


def test_all_layers_are_trained() -> None:
    model, (pixels, digits) = build(), images()
    before = [weights.copy() for weights in model.get_weights()]
    losses = model.fit(pixels[:200], digits[:200], batch_size=50, epochs=2, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    # Two classical layers before the circuits, two circuits, and a classical layer after them.
    assert len(before) == 8
    assert all(np.abs(new - old).max() > 1e-3 for new, old in zip(model.get_weights(), before, strict=True))


@pytest.mark.long
def test_training_reaches_the_accuracy_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    keras_circuits.main()
    assert float(capsys.readouterr().out.split()[1]) > 0.9
