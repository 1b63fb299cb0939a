"""Hypothesis strategies for random circuits, and reference results from Cirq."""

from collections.abc import Callable, Sequence

import cirq
import numpy as np
import numpy.typing as npt
import sympy
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from qcnn.circuits.circuits import Ansatz, ring
from qcnn.circuits.preparation import Preparation

Floats = npt.NDArray[np.float64]
Complex = npt.NDArray[np.complex128]
Build = Callable[..., cirq.Operation]

SYMBOLS: tuple[sympy.Symbol, ...] = tuple(sympy.symbols("a b c"))

# Number of qubits, number of exponents, and constructor of each operation.
GATES: list[tuple[int, int, Build]] = [
    (1, 1, lambda q, s: cirq.X(q) ** s),
    (1, 1, lambda q, s: cirq.Y(q) ** s),
    (1, 1, lambda q, s: cirq.Z(q) ** s),
    (1, 1, lambda q, s: cirq.rx(s)(q)),
    (1, 1, lambda q, s: cirq.XPowGate(exponent=s, global_shift=0.3)(q)),
    (1, 2, lambda q, s, t: cirq.PhasedXPowGate(phase_exponent=s, exponent=t)(q)),
    (1, 0, lambda q: cirq.H(q)),
    (2, 0, lambda q, r: cirq.CNOT(q, r)),
    (2, 1, lambda q, r, s: cirq.CZ(q, r) ** s),
    (2, 1, lambda q, r, s: cirq.XX(q, r) ** s),
    (2, 1, lambda q, r, s: cirq.YY(q, r) ** s),
    (2, 1, lambda q, r, s: cirq.ZZ(q, r) ** s),
    (2, 1, lambda q, r, s: cirq.SWAP(q, r) ** s),
    (2, 1, lambda q, r, s: cirq.ISWAP(q, r) ** s),
    (2, 2, lambda q, r, s, t: cirq.FSimGate(s, t)(q, r)),
    (2, 1, lambda q, r, s: cirq.ry(s)(q).controlled_by(r)),
    (2, 1, lambda q, r, s: (cirq.Y(q) ** s).controlled_by(r, control_values=[0])),
    (2, 0, lambda q, r: cirq.MatrixGate(cirq.testing.random_unitary(4, random_state=1))(q, r)),
    (3, 1, lambda q, r, u, s: (cirq.XX(q, r) ** s).controlled_by(u)),
    (3, 1, lambda q, r, u, s: cirq.CCX(q, r, u) ** s),
    (0, 0, lambda: cirq.global_phase_operation(1j**0.6)),
    (1, 1, lambda q, s: cirq.PhasedXZGate(x_exponent=s, z_exponent=0.3, axis_phase_exponent=-0.2)(q)),
    (3, 0, lambda q, r, u: cirq.DensePauliString("XYZ", coefficient=1j)(q, r, u)),
    # More than four qubits, and decomposed with a global phase.
    (5, 0, lambda *qubits: cirq.DiagonalGate(np.linspace(-1.0, 2.0, 32).tolist())(*qubits)),
    (5, 0, lambda *qubits: cirq.DensePauliString("XYZZY", coefficient=-1)(*qubits)),
]

# Deterministic settings.
repeatable = settings(
    derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow], print_blob=False
)


@st.composite
def exponents(draw: st.DrawFn) -> object:
    """Draw a linear form of at most two symbols."""
    form: object = draw(st.sampled_from([0.25, -0.8, 0.0, 1.0]))
    for symbol in draw(st.lists(st.sampled_from(SYMBOLS), max_size=2, unique=True)):
        form = form + draw(st.sampled_from([1, 2, -1, 0.37])) * symbol
    return form


@st.composite
def ansatzes(draw: st.DrawFn, least: int = 4, most: int = 7, gates: int = 14) -> tuple[Ansatz, int]:
    """Draw a circuit on a ring, with its readouts and the symbols that it uses."""
    qubits = draw(st.integers(least, most))
    operations = []
    for _ in range(draw(st.integers(1, gates))):
        width, count, build = draw(st.sampled_from([gate for gate in GATES if gate[0] <= qubits]))
        where = draw(st.permutations(ring(qubits)))[:width]
        operations.append(build(*where, *(draw(exponents()) for _ in range(count))))
    circuit = cirq.Circuit(operations)
    used = cirq.parameter_names(circuit)
    symbols = tuple(symbol for symbol in SYMBOLS if symbol.name in used)
    readouts = draw(st.lists(st.sampled_from(ring(qubits)), min_size=1, max_size=qubits, unique=True))
    return Ansatz(circuit, symbols, tuple(readouts)), qubits


def unitary(circuit: cirq.Circuit, symbols: Sequence[sympy.Symbol], values: Floats, qubits: int) -> Complex:
    """Return Cirq's unitary of the circuit on the whole ring."""
    resolved = cirq.resolve_parameters(circuit, dict(zip(symbols, values.tolist(), strict=True)))
    return resolved.unitary(ring(qubits), ring(qubits), dtype=np.complex128)


def assert_equal_up_to_phase(actual: Complex, expected: Complex, atol: float = 1e-7) -> None:
    """Assert that two unitaries are equal up to a global phase."""
    place = np.unravel_index(np.argmax(np.abs(expected)), expected.shape)
    phase = actual[place] / expected[place]
    assert abs(abs(phase) - 1) < atol
    np.testing.assert_allclose(actual, phase * expected, atol=atol)


def expectations(ansatz: Ansatz, qubits: int, values: Floats, excited: int, angle: float) -> Floats:
    """Return Z on the readouts, (readouts,), by Cirq in double precision."""
    (found,) = all_expectations(ansatz, qubits, values, [excited], [angle])
    return np.asarray(found)


def all_expectations(
    ansatz: Ansatz, qubits: int, values: Floats, excited: Sequence[int], angles: Sequence[float]
) -> Floats:
    """Return Z on the readouts of excitations, (samples, readouts), by Cirq in double precision."""
    line = ring(qubits)
    data = [*(cirq.H(q) for q in line), *(cirq.CZ(line[i], line[(i + 1) % qubits]) for i in range(qubits))]
    unexcited = _final(cirq.Circuit(data), qubits)
    turns = [cirq.Circuit(cirq.rx(angle)(line[qubit])) for qubit, angle in zip(excited, angles, strict=True)]
    return _expectations(np.array([_final(turn, qubits, unexcited) for turn in turns]), ansatz, qubits, values)


def prepared_expectations(
    ansatz: Ansatz, qubits: int, values: Floats, preparation: Preparation, samples: Floats
) -> Floats:
    """Return Z on the readouts of features or states, (samples, readouts), by Cirq in double precision."""
    if preparation.kind == "state":
        states = samples / np.linalg.norm(samples, axis=1, keepdims=True)
        return _expectations(states.astype(np.complex128), ansatz, qubits, values)
    turn = {"rx": cirq.rx, "ry": cirq.ry, "rz": cirq.rz}[preparation.kind]
    begun = [cirq.H(q) for q in ring(qubits)] if preparation.kind == "rz" else []
    turned = ([turn(angle)(q) for angle, q in zip(each, ring(qubits), strict=False)] for each in samples.tolist())
    prepared = np.array([_final(cirq.Circuit(begun, turns), qubits) for turns in turned])
    return _expectations(prepared, ansatz, qubits, values)


def _final(circuit: cirq.Circuit, qubits: int, initial: Complex | int = 0) -> Complex:
    return np.asarray(
        circuit.final_state_vector(initial_state=initial, qubit_order=ring(qubits), dtype=np.complex128), np.complex128
    )


def _expectations(states: Complex, ansatz: Ansatz, qubits: int, values: Floats) -> Floats:
    """Evolve all states at once, each entangled with a different basis state of idle qubits."""
    others = cirq.NamedQubit.range((len(states) - 1).bit_length(), prefix="sample")
    beside = np.zeros((2 ** len(others), states.shape[1]), np.complex128)
    beside[: len(states)] = states / np.sqrt(len(states))
    final = cirq.Simulator(dtype=np.complex128).simulate(
        ansatz.circuit,
        param_resolver=dict(zip(ansatz.symbols, values.tolist(), strict=True)),
        qubit_order=[*others, *ring(qubits)],
        initial_state=beside.reshape(-1),
    )
    evolved = final.final_state_vector.reshape(beside.shape)[: len(states)]
    of_readouts = {qubit: number for number, qubit in enumerate(ring(qubits))}
    observables = [cirq.Z(qubit) for qubit in ansatz.readouts]
    return np.array(
        [
            [np.real(each.expectation_from_state_vector(state, of_readouts)) for each in observables]
            for state in evolved * np.sqrt(len(states))
        ]
    )
