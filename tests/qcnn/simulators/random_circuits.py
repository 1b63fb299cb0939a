"""Hypothesis strategies for random circuits, and unitaries from Cirq."""

from collections.abc import Callable, Sequence

import cirq
import numpy as np
import sympy
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from qcnn.circuits.circuits import Ansatz, ring
from qcnn.testing.cirq_readouts import Complex, Floats

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
