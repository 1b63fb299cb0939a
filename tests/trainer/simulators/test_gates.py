"""What is read of a circuit multiplies to cirq's unitary of it; what cannot be read is named."""

from collections.abc import Iterable

import cirq
import numpy as np
import pytest
import sympy

from tests.trainer.simulators.drawn import Complex, Floats, assert_equal_up_to_phase, unitary
from trainer.circuits import Ansatz, ring
from trainer.errors import ConfigError
from trainer.simulators.gates import Gate, Network, read_network

QUBITS = 5
Q = ring(QUBITS)
A, B, C = SYMBOLS = tuple(sympy.symbols("a b c"))
FORM = 2 * A - B + 0.25
ONE, TWO, THREE, FOUR, FIVE = (cirq.testing.random_unitary(2**size, random_state=size) for size in range(1, 6))
LOOP = cirq.FrozenCircuit(cirq.X(Q[0]) ** A, cirq.CNOT(Q[0], Q[1]))


def repeated(circuit: cirq.FrozenCircuit, repetitions: int = 1) -> cirq.CircuitOperation:
    return cirq.CircuitOperation(circuit, repetitions=repetitions, use_repetition_ids=False)


def read(operations: cirq.OP_TREE) -> Network:
    return read_network(Ansatz(cirq.Circuit(operations), SYMBOLS, (Q[0],)), Q)


def product(gates: Iterable[Gate], values: Floats) -> Complex:
    total: Complex = np.eye(2**QUBITS, dtype=np.complex128)
    for gate in gates:
        exponent = gate.exponent.constant + sum(value * values[index] for index, value in gate.exponent.coefficients)
        turns = np.exp(1j * np.pi * gate.spectrum.phases * exponent)
        matrix = np.einsum("k,kij->ij", turns, gate.spectrum.projectors).reshape((2,) * 2 * len(gate.qubits))
        columns = total.reshape((2,) * QUBITS + (-1,))
        total = cirq.targeted_left_multiply(matrix, columns, gate.qubits).reshape(total.shape)
    return total


ONE_QUBIT = [
    cirq.X**FORM,
    cirq.Y**FORM,
    cirq.Z**FORM,
    cirq.H,
    cirq.H**FORM,
    cirq.rx(FORM),
    cirq.ry(FORM),
    cirq.rz(FORM),
    cirq.rx(sympy.pi / 3),
    cirq.S,
    cirq.T**-1,
    cirq.I,
    cirq.XPowGate(exponent=FORM, global_shift=0.3),
    cirq.ZPowGate(exponent=A, global_shift=-0.2),
    cirq.PhasedXPowGate(phase_exponent=FORM, exponent=C),
    cirq.PhasedXPowGate(phase_exponent=0.3, exponent=C),
    cirq.PhasedXPowGate(phase_exponent=A, exponent=B, global_shift=0.4),
    cirq.PhasedXZGate(x_exponent=A, z_exponent=FORM, axis_phase_exponent=C),
    cirq.MatrixGate(ONE),
]
TWO_QUBITS = [
    cirq.XX**FORM,
    cirq.YY**FORM,
    cirq.ZZ**FORM,
    cirq.XXPowGate(exponent=FORM, global_shift=0.3),
    cirq.CZ,
    cirq.CZ**FORM,
    cirq.CNOT,
    cirq.CNOT**FORM,
    cirq.CXPowGate(exponent=FORM, global_shift=0.3),
    cirq.SWAP,
    cirq.SWAP**FORM,
    cirq.ISWAP,
    cirq.ISWAP**FORM,
    cirq.FSimGate(FORM, C),
    cirq.FSimGate(0.3, 0.4),
    cirq.PhasedFSimGate(A, B, C, A, FORM),
    cirq.givens(FORM),
    cirq.PhasedISwapPowGate(phase_exponent=0.2, exponent=FORM),
    cirq.PhasedISwapPowGate(phase_exponent=A, exponent=B),
    cirq.ms(A),
    cirq.MatrixGate(TWO),
]


def with_controls(operation: cirq.Operation) -> Iterable[cirq.Operation]:
    """Yield the operation, and controlled: a phase that means nothing by itself is then seen."""
    yield operation
    yield operation.controlled_by(Q[4])
    yield operation.controlled_by(Q[4], control_values=[0])
    yield operation.controlled_by(Q[0], Q[4], control_values=[0, 1])


@pytest.mark.parametrize(
    "operation",
    [
        *(op for gate in ONE_QUBIT for op in with_controls(gate(Q[2]))),
        # Not in the order of the ring.
        *(op for gate in TWO_QUBITS for op in with_controls(gate(Q[3], Q[1]))),
        cirq.CCX(Q[3], Q[0], Q[2]) ** FORM,
        cirq.CCZ(Q[3], Q[0], Q[2]) ** FORM,
        cirq.CSWAP(Q[3], Q[0], Q[2]),
        cirq.X(Q[0]).controlled_by(Q[1], Q[2], control_values=cirq.SumOfProducts([(0, 1), (1, 0)])),
        (cirq.Y(Q[0]) ** FORM).controlled_by(Q[1], Q[2], control_values=[(0, 1), 1]),
        (cirq.X(Q[0]) ** FORM).with_tags("mine"),
        (cirq.X(Q[0]) ** FORM).with_tags("mine").controlled_by(Q[3]),
        cirq.MatrixGate(THREE)(Q[4], Q[0], Q[2]),
        cirq.MatrixGate(FOUR)(Q[4], Q[0], Q[2], Q[1]),
        cirq.IdentityGate(5)(*Q),
        cirq.ParallelGate(cirq.X**A, 3)(*Q[:3]),
        cirq.QuantumFourierTransformGate(3)(*Q[1:4]),
        cirq.PauliString({Q[0]: cirq.X, Q[2]: cirq.Y}),
        cirq.global_phase_operation(1j),
        cirq.global_phase_operation(1j).controlled_by(Q[1]),
        repeated(LOOP, 3),
        repeated(LOOP, -2),
        repeated(LOOP).with_qubit_mapping({Q[0]: Q[4], Q[1]: Q[2]}),
        repeated(LOOP).with_params({"a": FORM}),
        repeated(LOOP).controlled_by(Q[3]),
        repeated(LOOP).with_tags("mine"),
    ],
    ids=lambda op: " ".join(str(op).split())[:60],
)
def test_an_operation_is_read_as_cirq_means_it(operation: cirq.Operation) -> None:
    values = np.array([0.37, -1.2, 2.3])
    network = read(operation)
    expected = unitary(cirq.Circuit(operation), SYMBOLS, values, QUBITS)
    assert_equal_up_to_phase(product(network.gates, values), expected)


def test_gates_keep_their_order_and_equal_ones_share_what_they_are() -> None:
    values = np.array([0.37, -1.2, 2.3])
    operations = [gate(Q[i % 5]) for i, gate in enumerate(ONE_QUBIT)]
    operations += [gate(Q[i % 5], Q[(i + 2) % 5]) for i, gate in enumerate(TWO_QUBITS)]
    network = read(operations * 2)
    expected = unitary(cirq.Circuit(operations * 2), SYMBOLS, values, QUBITS)
    assert_equal_up_to_phase(product(network.gates, values), expected)
    assert len({id(gate.spectrum) for gate in network.gates}) == len({gate.spectrum.key for gate in network.gates})
    assert read([cirq.X(Q[0]) ** A]).gates[0].key == read([cirq.X(Q[3]) ** A]).gates[0].key
    assert read([cirq.X(Q[0]) ** A]).gates[0].key != read([cirq.X(Q[0]) ** B]).gates[0].key
    assert read([cirq.X(Q[0]) ** A]).gates[0].key != read([cirq.Y(Q[0]) ** A]).gates[0].key


class Opaque(cirq.Gate):
    def num_qubits(self) -> int:
        return 1


MEASURED = cirq.FrozenCircuit(cirq.measure(Q[0], key="m"))


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (cirq.measure(Q[0]), "is no unitary"),
        (repeated(MEASURED), "is no unitary"),
        (cirq.depolarize(0.1)(Q[0]), "is no unitary"),
        (cirq.amplitude_damp(0.1)(Q[0]), "is no unitary"),
        (cirq.KrausChannel([np.eye(2)])(Q[0]), "is no unitary"),
        (cirq.X(Q[0]).with_probability(0.5), "is no unitary"),
        (cirq.reset(Q[0]), "is no unitary"),
        (Opaque()(Q[0]), "is no unitary"),
        (cirq.X(Q[0]).with_classical_controls("m"), "no known unitary"),
        (
            cirq.CircuitOperation(
                MEASURED, use_repetition_ids=False, repeat_until=cirq.KeyCondition(cirq.MeasurementKey("m"))
            ),
            "cannot be decomposed",
        ),
        (cirq.MatrixGate(FIVE)(*Q), "no known unitary of at most 4 qubits"),
        (cirq.X(Q[0]) ** (A * B), "not linear"),
        (cirq.X(Q[0]) ** (A**2), "not linear"),
        (cirq.X(Q[0]) ** sympy.Abs(A), "not linear"),
        (cirq.X(Q[0]) ** (sympy.I * A), "not linear"),
        (cirq.rx(sympy.sin(A))(Q[0]), "not linear"),
        (cirq.FSimGate(A * B, B)(*Q[:2]), "not linear"),
        ((cirq.X(Q[0]) ** A).controlled_by(*Q[1:]), "more than 4 qubits"),
        (cirq.X(Q[0]).controlled_by(*Q[1:]), "more than 4 qubits"),
        (cirq.XPowGate(dimension=3)(cirq.LineQid(0, 3)), "acts on more than qubits"),
    ],
    ids=lambda value: " ".join(str(value).split())[:60],
)
def test_what_no_simulator_can_run_is_named_in_one_line(operation: cirq.Operation, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^model: .*{reason}.*Given: \S") as error:
        read([cirq.X(Q[0]) ** A, operation])
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_symbols_known_to_be_real_are_refused_alike() -> None:
    a, b = sympy.symbols("a b", real=True)
    with pytest.raises(ConfigError, match="not linear"):
        read_network(Ansatz(cirq.Circuit(cirq.X(Q[0]) ** (a * b)), (a, b), (Q[0],)), Q)
