"""Pauli transfer matrices of gates and channels, compared with Cirq's density matrices."""

import cirq
import numpy as np
import pytest
import sympy

from qcnn.circuits import circuits
from qcnn.circuits.noise import parse
from qcnn.circuits.sample_circuits import noisy_circuit
from qcnn.simulators.structure import heisenberg
from qcnn.simulators.structure.gates import read_gates
from qcnn.simulators.structure.network import Gate

RING = circuits.ring(3)
A, B, C = RING
# All supported forms: decomposed, controlled, with many phases, on three qubits.
OPERATIONS = [
    cirq.H(A),
    cirq.rx(0.3)(B),
    cirq.CZ(C, A) ** 0.3,
    cirq.ISWAP(B, C) ** 0.2,
    cirq.FSimGate(0.3, 0.4)(A, B),
    cirq.CCX(A, B, C) ** 0.4,
    cirq.XPowGate(exponent=0.3, global_shift=0.3)(A).controlled_by(C),
    cirq.MatrixGate(cirq.testing.random_unitary(4, random_state=1))(B, A),
    cirq.PhasedXPowGate(phase_exponent=0.2, exponent=0.3)(B),
    cirq.PhasedISwapPowGate(phase_exponent=0.2, exponent=0.3)(C, A),
    cirq.CircuitOperation(cirq.FrozenCircuit(cirq.Y(B) ** 0.3, cirq.CNOT(A, B)), use_repetition_ids=False),
]


def _coefficients(gates: tuple[Gate, ...]) -> heisenberg.Floats:
    state = heisenberg.ground_state(3)
    for gate in gates:
        state = heisenberg.apply_transfer(heisenberg.terms(gate).at(gate.exponent.constant), gate.qubits, state)
    return state


@pytest.mark.parametrize(
    "noise",
    [
        *("", "depolarizing.one=0.1", "depolarizing.two=0.2", "amplitude_damping=0.15", "phase_damping=0.3"),
        *("depolarizing=1", "amplitude_damping=1", "phase_damping.two=1", "depolarizing=0.02,amplitude_damping=0.1"),
        "depolarizing=0.1,amplitude_damping=0.1,phase_damping=0.1",
    ],
)
def test_transfer_matrices_of_noisy_gates_equal_cirq(noise: str) -> None:
    channels = parse(noise)
    found = _coefficients(read_gates(OPERATIONS, (), RING, channels))
    ansatz = circuits.Ansatz(cirq.Circuit(OPERATIONS), (), (A,))
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128)
    density = simulator.simulate(noisy_circuit(ansatz, cirq.Circuit(), channels), qubit_order=RING).final_density_matrix
    expected = np.einsum("pij,ji->p", heisenberg.paulis(3), density)
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-12)


def test_read_gates_noise_follows_whole_operation() -> None:
    channels = parse("depolarizing=0.1")
    s, t = sympy.symbols("s t")
    gates = read_gates([cirq.FSimGate(s, t)(A, B)], (s, t), RING, channels)
    assert len(gates) > 1
    assert [gate.channel for gate in gates] == [*[None] * (len(gates) - 1), channels.two]
    # The last gate of an operation may act on fewer qubits than the operation.
    gates = read_gates([cirq.QuantumFourierTransformGate(2)(A, B)], (), RING, channels)
    assert gates[-1].channel == channels.two
    assert set(gates[-1].qubits) == {0, 1}


def test_terms_sum_equals_transfer_matrix_at_any_exponent() -> None:
    (gate,) = read_gates([cirq.ISWAP(A, C) ** 0.37], (), RING, parse("amplitude_damping=0.2"))
    terms = heisenberg.terms(gate)
    np.testing.assert_allclose(terms.frequencies, [0, 0.5, 1], atol=1e-12)
    for exponent in (0.37, -1.2):
        (other,) = read_gates([cirq.ISWAP(A, C) ** exponent], (), RING, parse("amplitude_damping=0.2"))
        alone = heisenberg.terms(other)
        np.testing.assert_allclose(terms.at(exponent), alone.at(exponent), atol=1e-12)
    first_row = np.eye(1, 16)[0]
    # Channels and unitaries preserve the trace.
    np.testing.assert_allclose(terms.at(0.9)[0], first_row, atol=1e-12)
