"""Circuits of tutorials and demos, compared with Qiskit, and with NumPy by the gate lists of the demos."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence

import cirq
import numpy as np
import numpy.typing as npt
import pytest
from qiskit import QuantumCircuit
from qiskit.circuit.library import z_feature_map
from qiskit.quantum_info import Pauli, Statevector

from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.observables import as_pauli_sum
from qcnn.errors import ConfigError
from qcnn.published import annni, bars_and_stripes, few_data, four_digits, qiskit_tutorial

Complex = npt.NDArray[np.complex128]
_PAULIS = {
    "I": np.eye(2, dtype=complex),
    "X": np.array([[0, 1], [1, 0]], complex),
    "Y": np.array([[0, -1j], [1j, 0]]),
    "Z": np.array([[1, 0], [0, -1]], complex),
}
# Pauli words in the order of pennylane.ArbitraryUnitary.
_WORDS = ("XI", "YI", "ZI", "ZX", "IX", "XX", "YX", "YY", "ZY", "IY", "XY", "XZ", "YZ", "ZZ", "IZ")


def _rotation(word: str, angle: float) -> Complex:
    """Return exp(-i angle / 2 P), the matrix of PennyLane's RX, IsingXX, PauliRot and so on."""
    pauli = functools.reduce(np.kron, [_PAULIS[name] for name in word])
    return np.asarray(math.cos(angle / 2) * np.eye(len(pauli)) - 1j * math.sin(angle / 2) * pauli)


def _u3(theta: float, phi: float, lam: float) -> Complex:
    cosine, sine = math.cos(theta / 2), math.sin(theta / 2)
    lower = [np.exp(1j * phi) * sine, np.exp(1j * (phi + lam)) * cosine]
    return np.array([[cosine, -np.exp(1j * lam) * sine], lower])


class _State:
    """State vector of a few qubits as a tensor."""

    def __init__(self, amplitudes: Complex) -> None:
        self.tensor = amplitudes.reshape((2,) * (len(amplitudes).bit_length() - 1))

    def apply(self, matrix: Complex, *wires: int) -> None:
        moved = np.moveaxis(self.tensor, wires, range(len(wires)))
        moved = (matrix @ moved.reshape(len(matrix), -1)).reshape(moved.shape)
        self.tensor = np.moveaxis(moved, range(len(wires)), wires)

    def control(self, matrix: Complex, outcome: int, control: int, target: int) -> None:
        """Apply a gate of a target if the measurement of a control has an outcome."""
        blocks = [np.eye(2, dtype=complex), np.eye(2, dtype=complex)]
        blocks[outcome] = matrix
        self.apply(np.block([[blocks[0], np.zeros((2, 2))], [np.zeros((2, 2)), blocks[1]]]), control, target)

    def probabilities(self, *wires: int) -> npt.NDArray[np.float64]:
        others = tuple(set(range(self.tensor.ndim)) - set(wires))
        return np.asarray((np.abs(self.tensor) ** 2).sum(axis=others).ravel())


def _amplitudes(qubits: int) -> Complex:
    random = np.random.default_rng(qubits)
    values = random.normal(size=2**qubits) + 1j * random.normal(size=2**qubits)
    return np.asarray(values / np.linalg.norm(values))


def _parameters(ansatz: Ansatz) -> list[float]:
    return np.random.default_rng(1).normal(size=len(ansatz.symbols)).tolist()  # type: ignore[no-any-return]


def _final_state(ansatz: Ansatz, qubits: int) -> _State:
    values = dict(zip(ansatz.symbols, _parameters(ansatz), strict=True))
    result = cirq.Simulator(dtype=np.complex128).simulate(
        ansatz.circuit, values, qubit_order=ring(qubits), initial_state=_amplitudes(qubits)
    )
    return _State(np.asarray(result.final_state_vector))


def _few_data(angles: Iterator[float]) -> npt.NDArray[np.float64]:
    """Return the probabilities of qubit 0 by conv_net of the demo."""
    state, wires = _State(_amplitudes(6)), list(range(6))

    def take(count: int) -> list[float]:
        return [next(angles) for _ in range(count)]

    for layer in range(2):
        weights = [*(take(6) if layer == 0 else [math.nan] * 6), *take(9)]
        for parity in (0, 1):
            for index in range(parity, len(wires) - 1, 2):
                a, b = wires[index], wires[index + 1]
                if layer == 0 and parity == 0:
                    state.apply(_u3(*weights[0:3]), a)
                    state.apply(_u3(*weights[3:6]), b)
                for word, angle in zip(("XX", "YY", "ZZ"), weights[6:9], strict=True):
                    state.apply(_rotation(word, angle), a, b)
                state.apply(_u3(*weights[9:12]), a)
                state.apply(_u3(*weights[12:15]), b)
        pooling = take(3)
        for index in range(1, len(wires), 2):
            state.control(_u3(*pooling), 1, wires[index], wires[index - 1])
        wires = wires[::2]
    for word, angle in zip(_WORDS, take(15), strict=True):
        state.apply(_rotation(word, angle), *wires)
    assert next(angles, None) is None
    return state.probabilities(0)


def _annni(angles: Iterator[float]) -> npt.NDArray[np.float64]:
    """Return the probabilities of the last two qubits by qcnn_ansatz of the demo."""
    state, wires = _State(_amplitudes(8)), list(range(8))
    cnot = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], complex)
    for wire in wires:
        state.apply(_rotation("Y", next(angles)), wire)
    while len(wires) > 2:
        for a, b in zip(wires[::2], wires[1::2], strict=True):
            state.apply(cnot, a, b)
            state.apply(_rotation("Y", next(angles)), a)
            state.apply(_rotation("Y", next(angles)), b)
        for measured, kept in zip(wires[::2], wires[1::2], strict=True):
            state.control(_rotation("X", next(angles)), 0, measured, kept)
            state.control(_rotation("X", next(angles)), 1, measured, kept)
        wires = wires[1::2]
    for wire in wires:
        state.apply(_rotation("Y", next(angles)), wire)
    assert next(angles, None) is None
    return state.probabilities(*wires)


def _four_digits(angles: Iterator[float]) -> npt.NDArray[np.float64]:
    """Return the probabilities of qubits 3 and 5 by QCNNArchitecture.QCNN of the tutorial."""
    state, params = _State(_amplitudes(6)), list(angles)
    cnot = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], complex)

    def rot(first: int) -> Complex:
        a, b, c = params[first : first + 3]
        return np.asarray(_rotation("Z", c) @ _rotation("Y", b) @ _rotation("Z", a))

    def rotate(first: int, *wires: int) -> None:
        for wire in wires:
            state.apply(rot(first), wire)

    def entangle(first: int, a: int, b: int) -> None:
        state.apply(cnot, a, b)
        state.apply(rot(first), b)
        state.apply(cnot, a, b)

    for step in range(2):
        for first, wires in ((0, (0, 1)), (3, (2, 3)), (6, (4, 5))):
            rotate(first, *wires)
        for pair in ((0, 1), (2, 3), (4, 5)) if step == 0 else ():
            entangle(9, *pair)
    for step in range(2):
        rotate(9, 1, 2)
        rotate(12, 3, 4)
        for pair in ((1, 2), (3, 4)) if step == 0 else ():
            entangle(15, *pair)
    for pair in ((0, 1), (2, 3), (4, 5)):
        state.control(rot(18), 1, *pair)
    rotate(21, 1, 3, 5)
    for pair in ((1, 3), (3, 5)):
        entangle(24, *pair)
    rotate(21, 1, 3, 5)
    state.control(rot(24), 1, 1, 3)
    for word, angle in zip(_WORDS, params[27:], strict=True):
        state.apply(_rotation(word, angle), 3, 5)
    return state.probabilities(3, 5)


@pytest.mark.parametrize(
    ("network", "qubits", "count", "readouts", "reference"),
    [
        (few_data.network, 6, 45, [0], _few_data),
        (annni.network, 8, 34, [3, 7], _annni),
        (four_digits.network, 6, 42, [3, 5], _four_digits),
    ],
)
def test_probabilities_equal_the_gate_list_of_the_demo(
    network: Callable[[Sequence[cirq.Qid]], Ansatz],
    qubits: int,
    count: int,
    readouts: list[int],
    reference: Callable[[Iterator[float]], npt.NDArray[np.float64]],
) -> None:
    ansatz = network(ring(qubits))
    assert len(ansatz.symbols) == count
    assert ansatz.readouts == tuple(ring(qubits)[place] for place in readouts)
    found = _final_state(ansatz, qubits).probabilities(*readouts)
    np.testing.assert_allclose(found, reference(iter(_parameters(ansatz))), atol=1e-12)


def test_readouts_of_four_digits_are_probabilities_of_the_outcomes() -> None:
    ansatz = four_digits.outcomes(ring(6))
    values = dict(zip(ansatz.symbols, _parameters(ansatz), strict=True))
    found = cirq.Simulator(dtype=np.complex128).simulate_expectation_values(
        ansatz.circuit,
        [as_pauli_sum(each) for each in ansatz.readouts],
        values,
        qubit_order=ring(6),
        initial_state=_amplitudes(6),
    )
    np.testing.assert_allclose(np.real(found), _four_digits(iter(_parameters(ansatz))), atol=1e-12)


def _qiskit_pooling(circuit: QuantumCircuit, angles: Sequence[float], a: int, b: int) -> None:
    circuit.rz(-math.pi / 2, b)
    circuit.cx(b, a)
    circuit.rz(angles[0], a)
    circuit.ry(angles[1], b)
    circuit.cx(a, b)
    circuit.ry(angles[2], b)


def test_qiskit_tutorial_equals_the_circuit_built_with_qiskit() -> None:
    ansatz = qiskit_tutorial.network(ring(8))
    # 24 + 12 + 6 of the convolutions and 12 + 6 + 3 of the poolings, as in 11_qcnn_initial_point.json.
    assert len(ansatz.symbols) == 63
    features = np.random.default_rng(8).uniform(0, math.pi / 2, 8).tolist()
    angles, circuit = iter(_parameters(ansatz)), z_feature_map(8).assign_parameters(features)
    for first in (0, 4, 6):
        count = 8 - first
        for a, b in [*((k, k + 1) for k in range(0, count, 2)), *((k, (k + 1) % count) for k in range(1, count, 2))]:
            _qiskit_pooling(circuit, [next(angles) for _ in range(3)], first + a, first + b)
            circuit.cx(first + b, first + a)
            circuit.rz(math.pi / 2, first + a)
        for k in range(count // 2):
            _qiskit_pooling(circuit, [next(angles) for _ in range(3)], first + k, first + count // 2 + k)
    expected = Statevector(circuit).expectation_value(Pauli("Z"), [7]).real
    values = dict(zip((*ansatz.symbols, *ansatz.inputs), [*_parameters(ansatz), *features], strict=True))
    found = cirq.Simulator(dtype=np.complex128).simulate_expectation_values(
        ansatz.circuit, [cirq.Z(ring(8)[7])], values, qubit_order=ring(8)
    )
    assert ansatz.readouts == (ring(8)[7],)
    assert found[0].real == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("is_stripe", [True, False])
def test_signs_separate_bars_from_stripes_and_squares_do_not(is_stripe: bool) -> None:
    line = np.array([1.0, -1.0, -1.0, 1.0])
    image = np.tile(line[:, None], (1, 4)) if is_stripe else np.tile(line, (4, 1))
    image = image.astype(complex).ravel() / 4
    zs = [cirq.Z(qubit) for qubit in ring(4)]

    def readouts(circuit: cirq.Circuit) -> list[float]:
        values = cirq.Simulator(dtype=np.complex128).simulate_expectation_values(
            circuit, zs, qubit_order=ring(4), initial_state=image
        )
        return [value.real for value in values]

    # A stripe is |++> of the column qubits, and this line has no overlap with |++> of the row qubits.
    constant = [0.0, 0.0, 1.0, 1.0]
    found = readouts(bars_and_stripes.signs(ring(4)).circuit)
    assert found[2:] == pytest.approx(constant[2:]) if is_stripe else found[:2] == pytest.approx(constant[2:])
    assert readouts(bars_and_stripes.squares(ring(4)).circuit) == pytest.approx([0, 0, 0, 0])


@pytest.mark.parametrize(
    ("network", "qubits"),
    [(few_data.network, 8), (qiskit_tutorial.network, 4), (annni.network, 6), (four_digits.network, 4)],
)
def test_other_number_of_qubits_is_rejected(network: Callable[[Sequence[cirq.Qid]], Ansatz], qubits: int) -> None:
    with pytest.raises(ConfigError, match=rf"^qubits: must be .* Given: {qubits}$"):
        network(ring(qubits))
