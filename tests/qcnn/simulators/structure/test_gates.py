"""Conversion of Cirq circuits to gates, and errors for unsupported operations."""

import math
from collections.abc import Iterable
from pathlib import Path

import cirq
import numpy as np
import pytest
import sympy

from qcnn import simulators
from qcnn.circuits.circuits import Ansatz, ring
from qcnn.errors import ConfigError, single_line
from qcnn.simulators import SimulatorLimits
from qcnn.simulators.structure.gates import fingerprint, read_gates, read_network
from qcnn.simulators.structure.network import Gate
from qcnn.testing.cirq_readouts import Complex, Floats
from tests.calls import count_calls
from tests.qcnn.simulators.random_circuits import assert_equal_up_to_phase, unitary

QUBITS = 5
Q = ring(QUBITS)
A, B, C = SYMBOLS = tuple(sympy.symbols("a b c"))
FORM = 2 * A - B + 0.25
ONE, TWO, THREE, FOUR, FIVE = (cirq.testing.random_unitary(2**size, random_state=size) for size in range(1, 6))
LOOP = cirq.FrozenCircuit(cirq.X(Q[0]) ** A, cirq.CNOT(Q[0], Q[1]))


def repeated(circuit: cirq.FrozenCircuit, repetitions: int = 1) -> cirq.CircuitOperation:
    return cirq.CircuitOperation(circuit, repetitions=repetitions, use_repetition_ids=False)


def read(operations: cirq.OP_TREE) -> tuple[Gate, ...]:
    return read_gates(cirq.Circuit(operations).all_operations(), SYMBOLS, Q)


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
    """Yield the operation, and controlled forms of it, in which its global phase matters."""
    yield operation
    yield operation.controlled_by(Q[4])
    yield operation.controlled_by(Q[4], control_values=[0])
    yield operation.controlled_by(Q[0], Q[4], control_values=[0, 1])


@pytest.mark.parametrize(
    "operation",
    [
        *(op for gate in ONE_QUBIT for op in with_controls(gate(Q[2]))),
        # The qubits are not in the order of the ring.
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
def test_read_gates_product_equals_cirq_unitary(operation: cirq.Operation) -> None:
    values = np.array([0.37, -1.2, 2.3])
    expected = unitary(cirq.Circuit(operation), SYMBOLS, values, QUBITS)
    assert_equal_up_to_phase(product(read(operation), values), expected)


def test_read_gates_keeps_order_and_shares_spectra() -> None:
    values = np.array([0.37, -1.2, 2.3])
    operations = [gate(Q[i % 5]) for i, gate in enumerate(ONE_QUBIT)]
    operations += [gate(Q[i % 5], Q[(i + 2) % 5]) for i, gate in enumerate(TWO_QUBITS)]
    gates = read(operations * 2)
    expected = unitary(cirq.Circuit(operations * 2), SYMBOLS, values, QUBITS)
    assert_equal_up_to_phase(product(gates, values), expected)
    assert len({id(gate.spectrum) for gate in gates}) == len({gate.spectrum.key for gate in gates})
    assert read([cirq.X(Q[0]) ** A])[0].key == read([cirq.X(Q[3]) ** A])[0].key
    assert read([cirq.X(Q[0]) ** A])[0].key != read([cirq.X(Q[0]) ** B])[0].key
    assert read([cirq.X(Q[0]) ** A])[0].key != read([cirq.Y(Q[0]) ** A])[0].key


class Opaque(cirq.Gate):
    def num_qubits(self) -> int:
        return 1


class Endless(Opaque):
    def _decompose_(self, qubits: tuple[cirq.Qid, ...]) -> cirq.OP_TREE:
        return Endless().on(*qubits)


class Failing(Opaque):
    def _unitary_(self) -> Complex:
        raise ZeroDivisionError("of mine")


class NonUnitary(cirq.EigenGate):
    """Eigengate whose projectors do not form a unitary."""

    def num_qubits(self) -> int:
        return 1

    def _eigen_components(self) -> list[tuple[float, Complex]]:
        return [(0.0, np.eye(2, dtype=np.complex128)), (1.0, np.eye(2, dtype=np.complex128))]


MEASURED = cirq.FrozenCircuit(cirq.measure(Q[0], key="m"))
HUGE = 10**400


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (cirq.PauliMeasurementGate([cirq.X])(Q[0]), "is a measurement"),
        (repeated(MEASURED), "is a measurement"),
        (cirq.depolarize(0.1)(Q[0]), "is a noise channel"),
        (cirq.amplitude_damp(0.1)(Q[0]), "is a noise channel"),
        (cirq.KrausChannel([np.eye(2)])(Q[0]), "is a noise channel"),
        (cirq.X(Q[0]).with_probability(0.5), "is a noise channel"),
        ((cirq.X(Q[0]) ** A).with_probability(0.5), "is a noise channel"),
        (Opaque()(Q[0]), "no known unitary"),
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
        (cirq.XPowGate(dimension=3)(cirq.LineQid(0, 3)), "acts on a qudit whose dimension is not 2"),
        (cirq.X(cirq.LineQubit(0)), "acts outside of the ring of 5 qubits"),
        (cirq.CZ(Q[0], cirq.GridQubit(7, 7)), "acts outside of the ring of 5 qubits"),
        (cirq.X(Q[0]) ** float("nan"), "not a finite number"),
        (cirq.X(Q[0]) ** float("inf"), "not a finite number"),
        (cirq.X(Q[0]) ** HUGE, "cannot be read .OverflowError"),
        (cirq.X(Q[0]) ** sympy.nan, "not a finite number"),
        (cirq.X(Q[0]) ** (sympy.oo * A), "not a finite number"),
        (cirq.X(Q[0]) ** (A + sympy.Integer(HUGE)), "not a finite number"),
        (cirq.rx(math.nan)(Q[0]).controlled_by(Q[1]), "not a finite number"),
        (cirq.PhasedXPowGate(phase_exponent=math.nan, exponent=A)(Q[0]), "not a finite number"),
        (cirq.XPowGate(exponent=A, global_shift=math.nan)(Q[0]), "not unitary"),
        (cirq.FSimGate(math.nan, 0.1)(*Q[:2]), "not unitary"),
        (cirq.MatrixGate(2 * ONE, unitary_check=False)(Q[0]), "not unitary"),
        (cirq.MatrixGate(math.nan * ONE, unitary_check=False)(Q[0]), "not unitary"),
        (NonUnitary()(Q[0]), "not unitary"),
        (cirq.X(Q[0]) ** sympy.Symbol("d"), "has the parameter d, which is not in symbols"),
        (Endless()(Q[0]), "has an endless decomposition"),
        (Failing()(Q[0]), r"cannot be read \(ZeroDivisionError: of mine\)"),
    ],
    ids=lambda value: single_line(value)[:60],
)
@pytest.mark.parametrize("simulator", ["lightcone", "statevector", "tfq", "auto"])
def test_create_unsupported_operation_raises_for_all_simulators(
    simulator: str, operation: cirq.Operation, reason: str
) -> None:
    ansatz = Ansatz(cirq.Circuit(cirq.X(Q[1]) ** A, operation), SYMBOLS, (Q[0],))
    with pytest.raises(ConfigError, match=rf"^model: .*{reason}.*Given: \S") as error:
        simulators.create(simulator, ansatz, Q, SimulatorLimits(memory=2**30, batch=4))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (cirq.measure(Q[0]), "a measurement must condition a gate"),
        (cirq.measure(Q[0]).with_tags("mine"), "a measurement must condition a gate"),
        (cirq.reset(Q[0]), "a qubit must not be used after its reset"),
        (cirq.X(Q[0]).with_classical_controls("m"), "a bit must be measured before it conditions a gate"),
    ],
    ids=lambda value: single_line(value)[:60],
)
def test_measurement_that_cannot_be_deferred_raises(operation: cirq.Operation, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^model: {reason}.*Given: \S"):
        Ansatz(cirq.Circuit(cirq.X(Q[1]) ** A, operation), SYMBOLS, (Q[0],))


def test_read_network_nonlinear_real_symbols_raise() -> None:
    a, b = sympy.symbols("a b", real=True)
    with pytest.raises(ConfigError, match="not linear"):
        read_network(Ansatz(cirq.Circuit(cirq.X(Q[0]) ** (a * b)), (a, b), (Q[0],)), Q)


def test_read_gates_identifies_parameters_by_name() -> None:
    """Assumptions of a SymPy symbol do not make it a different parameter."""
    real = sympy.Symbol("a", real=True)
    (gate,) = read([cirq.X(Q[0]) ** (2 * A + real)])
    assert gate.exponent.coefficients == ((0, 3.0),)


@pytest.mark.parametrize(
    ("symbols", "readouts", "message"),
    [
        ((A, C), (Q[0],), "symbols must not contain unused parameters. Given: c"),
        ((), (Q[0],), "an operation has the parameter a, which is not in symbols.* Given: X"),
        ((A,), (Q[0], cirq.GridQubit(5, 5)), r"a readout is not on the ring of 5 qubits. Given: q\(5, 5\)"),
    ],
)
def test_read_network_wrong_symbols_or_readouts_raise(
    symbols: tuple[sympy.Symbol, ...], readouts: tuple[cirq.Qid, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^model: {message}"):
        read_network(Ansatz(cirq.Circuit(cirq.X(Q[0]) ** A), symbols, readouts), Q)


CIRCUITS = """
import cirq, sympy
from qcnn.circuits.circuits import Ansatz

class Turn(cirq.Gate):
    def __init__(self, power): self.power = power
    def num_qubits(self): return 1
    def _unitary_(self): return cirq.unitary(cirq.Y ** self.power)

def _of(gate, qubits):
    s = sympy.Symbol("s")
    return Ansatz(cirq.Circuit(gate(qubits[0]), cirq.X(qubits[0]) ** s), (s,), (qubits[0],))

def known(qubits): return _of(cirq.Y ** 0.3, qubits)
def another(qubits): return _of(cirq.Y ** 0.4, qubits)
def unknown(qubits): return _of(Turn(0.3), qubits)
def another_unknown(qubits): return _of(Turn(0.4), qubits)
"""


def test_fingerprint_differs_for_different_circuits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for gates that Cirq cannot serialize."""
    (tmp_path / "fingerprinted.py").write_text(CIRCUITS)
    monkeypatch.syspath_prepend(tmp_path)
    models = [f"fingerprinted:{name}" for name in ("known", "another", "unknown", "another_unknown")]
    digests = [fingerprint(model, 4) for model in models]
    assert len(set(digests)) == 4
    assert {len(digest) for digest in digests} == {64}
    assert [fingerprint(model, 4) for model in models] == digests


@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_fingerprint_of_built_in_model_is_empty(model: str) -> None:
    assert fingerprint(model, 4) == ""


def test_reading_gates_with_symbols_takes_few_calls() -> None:
    symbols = sympy.symbols("t0:400")
    operations = [(cirq.X(Q[0]) ** (2 * symbol + 0.5), cirq.rz(symbol)(Q[0])) for symbol in symbols]
    ansatz = Ansatz(cirq.Circuit(operations), symbols, (Q[0],))
    # Derivatives and hashes of expressions take thousands.
    assert count_calls(lambda: read_network(ansatz, Q)) < 600 * 2 * len(symbols)
