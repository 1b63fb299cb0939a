"""Import of OpenQASM, compared with unitaries from Qiskit."""

import warnings
from collections.abc import Sequence

import cirq
import numpy as np
import pytest
from qiskit import QuantumCircuit, qasm2, qasm3
from qiskit.quantum_info import Operator

from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.circuits import build
from qcnn.circuits.formats import cirq_json, openqasm
from qcnn.circuits.formats.embedded import embed
from qcnn.errors import ConfigError
from qcnn.simulators.structure.gates import read_network
from qcnn.testing.cirq_readouts import Complex
from tests.qcnn.simulators.random_circuits import assert_equal_up_to_phase

HEAD2 = 'OPENQASM 2.0;\ninclude "qelib1.inc";\nqreg q[5];\ncreg c[5];\nh q;\n'
HEAD3 = 'OPENQASM 3.0;\ninclude "stdgates.inc";\nqubit[4] q;\nbit[4] c;\nh q;\n'

QELIB1 = """
u3(0.1,0.2,0.3) q[0]; u2(0.1,0.2) q[1]; u1(0.2) q[2]; u(0.4,0.5,0.6) q[3]; p(0.3) q[1]; id q[0]; u0(1) q[0];
x q[1]; y q[0]; z q[0]; s q[0]; sdg q[1]; t q[0]; tdg q[1]; sx q[0]; sxdg q[1]; rx(0.1) q[0];
ry(0.2) q[0]; rz(0.3) q[0]; cx q[0],q[1]; cz q[0],q[2]; cy q[0],q[1]; ch q[2],q[1]; swap q[0],q[3]; csx q[0],q[1];
crx(0.1) q[0],q[1]; cry(0.2) q[2],q[1]; crz(0.3) q[0],q[1]; cu1(0.4) q[0],q[3]; cp(0.5) q[0],q[1];
cu3(0.1,0.2,0.3) q[1],q[0]; cu(0.1,0.2,0.3,0.4) q[0],q[2]; rxx(0.1) q[0],q[1]; rzz(0.2) q[3],q[1];
ccx q[0],q[1],q[2]; cswap q[2],q[1],q[0]; rccx q[0],q[1],q[2]; rc3x q[0],q[1],q[2],q[3];
c3x q[3],q[1],q[2],q[0]; c3sqrtx q[0],q[1],q[2],q[3]; c4x q[0],q[4],q[2],q[3],q[1];
gate mine(a,b) x,y { U(a,b,0.1) x; CX x,y; barrier x,y; rz(sin(a)^2/2) y; } mine(0.3,pi/7) q[2],q[1];
"""
STDGATES = """
p(0.1) q[0]; x q[0]; y q[1]; z q[2]; h q[3]; s q[0]; sdg q[1]; t q[2]; tdg q[3]; sx q[0]; id q[1]; gphase(0.7);
rx(0.2) q[0]; ry(0.3) q[1]; rz(0.4) q[2]; U(0.5,0.6,0.7) q[3]; u1(0.1) q[0]; u2(0.2,0.3) q[1]; u3(0.4,0.5,0.6) q[2];
cx q[0],q[1]; cy q[1],q[2]; cz q[2],q[3]; cp(0.2) q[0],q[3]; crx(0.3) q[0],q[1]; cry(0.4) q[1],q[0]; crz(0.5) q[2],q[0];
ch q[0],q[2]; swap q[1],q[3]; ccx q[0],q[2],q[3]; cswap q[3],q[0],q[1]; cu(0.1,0.2,0.3,0.4) q[2],q[1];
CX q[0],q[3]; phase(0.6) q[0]; cphase(0.7) q[1],q[0];
ctrl @ gphase(0.3) q[0]; negctrl @ gphase(0.5) q[1]; ctrl(2) @ gphase(0.7) q[0],q[2]; negctrl @ x q[0],q[1];
pow(0.5) @ x q[0]; pow(2) @ s q[0]; inv @ s q[0]; pow(-2) @ rx(0.3) q[3]; pow(0.5) @ cx q[2],q[0];
ctrl(2) @ rx(0.7) q[2],q[1],q[0]; ctrl(3) @ u3(0.1,0.5,0.3) q[0],q[2],q[1],q[3];
negctrl @ ctrl @ ry(0.4) q[0],q[1],q[2];
ctrl @ cu(0.1,0.2,0.3,0.4) q[0],q[1],q[2]; negctrl @ cu(0.4,0.3,0.2,0.1) q[2],q[0],q[3];
gate mine(a,b) u,v { rx(b) u; ry(2*a) v; gphase(a); cx u,v; } gate outer(a,b) u,v { mine(b,a/3) v,u; rz(b-a) u; }
mine(0.3,0.4) q[0],q[1]; outer(0.5,0.6) q[2],q[0]; inv @ outer(0.7,0.8) q[1],q[3]; ctrl @ outer(0.2,0.1) q[3],q[1],q[0];
let half = q[1:2]; x half; barrier q;
"""
INPUTS = """
input float[64] omega; input angle[32] alpha;
rx(omega) q[0]; rz(2*alpha-omega/3+pi/2) q[1]; crx(alpha) q[0],q[2]; U(alpha,omega,0.3) q[1];
cu(alpha,omega,0.2,alpha) q[1],q[2];
gate mine(a,b) u { rx(b) u; ry(a) u; gphase(b); } mine(alpha,omega) q[0]; ctrl @ mine(alpha,2*omega) q[0],q[1];
inv @ rx(alpha) q[2]; ctrl(2) @ p(omega) q[1],q[2],q[3]; gphase(alpha);
"""


def _unitary_of_qiskit(circuit: QuantumCircuit) -> Complex:
    """Return the unitary with the first qubit as the most significant bit, as in cirq."""
    return np.asarray(Operator(circuit.reverse_bits()).data)


def _unitary(ansatz: Ansatz, qubits: int, radians: Sequence[float] = ()) -> Complex:
    values = {symbol: value / np.pi for symbol, value in zip(ansatz.symbols, radians, strict=True)}
    circuit = cirq.resolve_parameters(ansatz.circuit, values)
    return circuit.unitary(ring(qubits), ring(qubits), dtype=np.complex128)


def _by_qiskit(text: str) -> QuantumCircuit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if text.startswith("OPENQASM 3"):
            return qasm3.loads(text)
        return qasm2.loads(text, custom_instructions=qasm2.LEGACY_CUSTOM_INSTRUCTIONS)


@pytest.mark.parametrize("text", [HEAD2 + QELIB1, HEAD3 + STDGATES], ids=["qelib1", "stdgates"])
def test_standard_gates_match_qiskit(text: str) -> None:
    ansatz = openqasm.read(text, "a.qasm")
    circuit = _by_qiskit(text)
    assert_equal_up_to_phase(_unitary(ansatz, circuit.num_qubits), _unitary_of_qiskit(circuit))
    # Simulators support all gates.
    assert read_network(ansatz, ring(circuit.num_qubits)).readouts == tuple(range(circuit.num_qubits))


def test_inputs_become_symbols_in_order_and_units_of_pi() -> None:
    ansatz = openqasm.read(HEAD3 + INPUTS, "a.qasm")
    assert [symbol.name for symbol in ansatz.symbols] == ["omega", "alpha"]
    circuit, radians = _by_qiskit(HEAD3 + INPUTS), {"omega": 0.7, "alpha": -1.1}
    bound = circuit.assign_parameters(radians)
    assert_equal_up_to_phase(_unitary(ansatz, 4, tuple(radians.values())), _unitary_of_qiskit(bound))
    gates = read_network(ansatz, ring(4)).gates
    # RX(omega) is a power of X with the exponent omega / pi.
    assert next(gate.exponent.coefficients for gate in gates if gate.exponent.coefficients) == ((0, 1.0),)


def test_gate_arguments_keep_declaration_order() -> None:
    """Qiskit's importer sorts arguments by name."""
    text = HEAD3 + "gate mine(b, a) u { rx(b) u; ry(2*a) u; } gate none u { x u; } mine(0.3, 0.4) q[0]; none q[1];"
    written = HEAD3 + "rx(0.3) q[0]; ry(0.8) q[0]; x q[1];"
    found, expected = (_unitary(openqasm.read(each, "a.qasm"), 4) for each in (text, written))
    np.testing.assert_allclose(found, expected, atol=1e-12)


# Body of a gate definition that differs from any library gate with the same name, by numbers of angles and qubits.
OWN = "gate {name}{angles} {qubits} {{ U(0.3, 0.4, 0.5) a0; {body} }}"
ENTANGLING = {2: "U(0.1, 0.2, 0.3) a{0}; CX a{0}, a{1};", 3: "ctrl @ U(0.1, 0.2, 0.3) a{0}, a{1}; gphase(0.7);"}


def _own_gate(version: int, name: str, angles: int, qubits: int) -> tuple[str, str]:
    """Return a gate definition and a call without the final semicolon."""
    arguments, given = [f"t{n}" for n in range(angles)], [f"{0.2 + n / 10}" for n in range(angles)]
    body = "".join(f"U({argument}, 0.2, 2*{argument}) a0; " for argument in arguments)
    body += " ".join(ENTANGLING[version].format(n, n + 1) for n in range(qubits - 1))
    definition = OWN.format(
        name=name,
        angles=f"({', '.join(arguments)})" if angles else "",
        qubits=", ".join(f"a{n}" for n in range(qubits)),
        body=body,
    )
    return definition, name + (f"({', '.join(given)})" if angles else "")


QELIB1_GATES = [(each.name, each.num_params, each.num_qubits) for each in qasm2.LEGACY_CUSTOM_INSTRUCTIONS]
# Names of gates in stdgates.inc and Qiskit, with the numbers of angles and qubits of Qiskit's gate or other numbers.
STDGATES_GATES = [("x", 0, 1), ("rz", 1, 1), ("p", 1, 1), ("phase", 1, 1), ("u", 3, 1), ("h", 1, 2), ("cx", 0, 2)]
STDGATES_GATES += [("rzz", 1, 2), ("iswap", 0, 2), ("ecr", 0, 2), ("ccx", 0, 3), ("sxdg", 0, 1), ("cu", 4, 2)]


@pytest.mark.parametrize("include", ['include "qelib1.inc";', ""])
@pytest.mark.parametrize("more", [0, 1])
def test_openqasm2_gate_definitions_take_precedence(include: str, more: int) -> None:
    for name, angles, qubits in QELIB1_GATES:
        made = []
        for called in (name, "neutral"):
            definition, call = _own_gate(2, called, angles + more, qubits)
            places = ", ".join(f"q[{n}]" for n in range(qubits))
            text = f"OPENQASM 2.0;\n{include}\n{definition}\nqreg q[5];\nU(1, 2, 3) q;\n{call} {places};"
            made.append(_unitary(openqasm.read(text, "a.qasm"), 5))
        assert_equal_up_to_phase(made[0], made[1])


@pytest.mark.parametrize("include", ['include "stdgates.inc";', ""])
@pytest.mark.parametrize(("name", "angles", "qubits"), STDGATES_GATES)
def test_openqasm3_gate_definitions_take_precedence(include: str, name: str, angles: int, qubits: int) -> None:
    """Also with modifiers, because Qiskit identifies some gates by name when it applies modifiers."""
    made = []
    for called in (name, "neutral"):
        definition, call = _own_gate(3, called, angles, qubits)
        places = ", ".join(f"q[{n}]" for n in range(qubits))
        uses = f"{call} {places}; ctrl @ {call} q[3], {places}; negctrl @ inv @ {call} q[3], {places};"
        text = f"OPENQASM 3.0;\n{include}\n{definition}\nqubit[4] q;\nU(1, 2, 3) q;\n{uses} pow(2) @ {call} {places};"
        made.append(_unitary(openqasm.read(text, "a.qasm"), 4))
    assert_equal_up_to_phase(made[0], made[1])


@pytest.mark.parametrize(
    "text",
    [
        HEAD2 + "gate ryy(t) a, b { rx(3*t) a; rx(3*t) b; }\nu3(0, 0, 0) q[0];\nh q;\nryy(0.25) q[1], q[2];",
        HEAD3 + "h q;\ngate ryy(t) a, b { rx(3*t) a; rx(3*t) b; }\nryy(0.25) q[1], q[2];",
        HEAD2 + "gate rzz(t) a, b { rx(3*t) a; rx(3*t) b; }\nh q;\nrzz(0.25) q[1], q[2];",
        HEAD3 + "h q;\ngate rx(t) a { U(3*t, -pi/2, pi/2) a; }\nrx(0.25) q[1:2];",
    ],
)
def test_readouts_use_gate_definitions_of_file(text: str) -> None:
    """H twice is the identity, and Z after RX(0.75) is cos(0.75)."""
    circuit = openqasm.read(text, "a.qasm").circuit
    observed = [cirq.Z(qubit) for qubit in ring(4)]
    readouts = cirq.Simulator(dtype=np.complex128).simulate_expectation_values(circuit, observed)
    np.testing.assert_allclose(readouts, [1, np.cos(0.75), np.cos(0.75), 1], atol=1e-12)


def test_registers_may_have_names_of_extra_qiskit_gates() -> None:
    text = 'OPENQASM 2.0;\ninclude "qelib1.inc";\nqreg p[2];\ncreg cu[2];\nh p[0];\nmeasure p[1] -> cu[0];'
    assert openqasm.read(text, "a.qasm").readouts == (ring(2)[1],)
    with pytest.raises(ConfigError, match=r"^model: line 3: cannot be read as OpenQASM \('cx' is already defined\)"):
        openqasm.read(text.replace("qreg p", "qreg cx"), "a.qasm")


def test_divisions_without_remainder_are_accepted() -> None:
    text = "rx(6/3*pi/4) q[0]; ry(3.0/2) q[1]; rz(1/2.0) q[2]; x q[4/2]; pow(6/2) @ rx(0.1) q[3];"
    same = "rx(pi/2) q[0]; ry(1.5) q[1]; rz(0.5) q[2]; x q[2]; rx(0.3) q[3];"
    found, expected = (_unitary(openqasm.read(HEAD3 + each, "a.qasm"), 4) for each in (text, same))
    assert_equal_up_to_phase(found, expected)
    # OpenQASM 2 has no integer division.
    halves = openqasm.read(HEAD2 + "rx(1/2*pi) q[0];", "a.qasm")
    assert_equal_up_to_phase(_unitary(halves, 5), _unitary(openqasm.read(HEAD2 + "rx(pi/2) q[0];", "a.qasm"), 5))


@pytest.mark.parametrize(
    ("index", "places"),
    [
        ("1:2", [1, 2]),
        ("0:2:3", [0, 2]),
        ("1:2:2", [1]),
        ("3:-1:0", [3, 2, 1, 0]),
        ("3:-2:0", [3, 1]),
        ("2:-1:1", [2, 1]),
        ("-3:-1", [1, 2, 3]),
        ("-1:-1:-4", [3, 2, 1, 0]),
        ("0:-1", [0, 1, 2, 3]),
        ("2:", [2, 3]),
        (":1", [0, 1]),
        (":", [0, 1, 2, 3]),
        ("2:2", [2]),
        ("{3, 0, -2}", [3, 0, 2]),
        ("-2", [2]),
    ],
)
def test_slices_include_both_ends(index: str, places: list[int]) -> None:
    """Slices include both ends for any step, and negative indices count from the end of the register."""
    text = HEAD3 + f"rx(0.3) q[{index}];"
    operations = list(openqasm.read(text, "a.qasm").circuit.all_operations())[4:]
    assert [operation.qubits for operation in operations] == [(ring(4)[place],) for place in places]
    read = openqasm.read(HEAD3 + f"bit[{len(places)}] d; d = measure q[{index}];", "a.qasm")
    assert read.readouts == tuple(ring(4)[place] for place in places) or index == "-2"
    if len(places) > 1:
        alias = openqasm.read(HEAD3 + f"let some = q[{index}];\nrx(0.3) some[{len(places) - 1}];", "a.qasm")
        assert list(alias.circuit.all_operations())[-1].qubits == (ring(4)[places[-1]],)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("pow(2) @ rx(w) q[0];", "rx(2*w) q[0];"),
        ("pow(-0.5) @ ry(w) q[0];", "ry(-w/2) q[0];"),
        ("pow(2) @ rz(w+0.2) q[0];", "rz(2*w+0.4) q[0];"),
        ("pow(3) @ p(w) q[0];", "p(3*w) q[0];"),
        ("pow(2) @ cp(w) q[0], q[1];", "cp(2*w) q[0], q[1];"),
    ],
)
def test_pow_of_rotations_accepts_inputs(text: str, same: str) -> None:
    found, expected = (
        _unitary(openqasm.read(HEAD3 + "input float w;" + each, "a.qasm"), 4, [0.7]) for each in (text, same)
    )
    assert_equal_up_to_phase(found, expected)


@pytest.mark.parametrize(
    ("text", "readouts"),
    [
        (HEAD3, (0, 1, 2, 3)),
        (HEAD3 + "c[0] = measure q[2]; c[1] = measure q[0]; x q[1];", (2, 0)),
        (HEAD3 + "c[1] = measure q[2]; c[0] = measure q[0];", (0, 2)),
        (HEAD3 + "c = measure q;", (0, 1, 2, 3)),
        (HEAD2 + "barrier q; measure q[4] -> c[3]; measure q[1] -> c[4]; barrier q;", (4, 1)),
    ],
)
def test_readouts_are_measured_qubits_in_bit_order(text: str, readouts: tuple[int, ...]) -> None:
    assert openqasm.read(text, "a.qasm").readouts == tuple(ring(5)[place] for place in readouts)


# Each gate calls the previous one: twice in EMPTY, once in DEEP.
EMPTY = "".join(f"gate g{n} a {{ {'' if n == 0 else f'g{n - 1} a; g{n - 1} a;'} }}\n" for n in range(40))
DEEP = "gate g0 a { x a; }\n" + "".join(f"gate g{n} a {{ g{n - 1} a; }}\n" for n in range(1, 500))
BOMB = "".join(f"gate g{n} a {{ {'x a; x a;' if n == 0 else f'g{n - 1} a; g{n - 1} a;'} }}\n" for n in range(40))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "a file of OpenQASM must begin with OPENQASM 2.0; or OPENQASM 3.0;. "),
        ("OPENQASM 4.0;", "a file of OpenQASM must begin with OPENQASM 2.0; or OPENQASM 3.0;. "),
        (
            "OPENQASM 2.0;\n// a comment with /*\nqreg q[4];\n/* two\nlines */",
            "line 4: comments of OpenQASM 2 must begin ",
        ),
        ("OPENQASM 3;\nqubit[1000000000] q;", "line 2: registers must have at most 32768 bits. "),
        ('OPENQASM 3;\ninclude "/etc/passwd";', "line 2: cannot be read as OpenQASM (non-stdgates imports not "),
        ('OPENQASM 2.0;\ninclude "/etc/passwd";', "line 2: cannot be read as OpenQASM (unable to find '/etc/passwd' "),
        (HEAD3 + "foo q[0];", "line 6: cannot be read as OpenQASM (gate 'foo' is not defined.). "),
        (HEAD2 + "foo q[0];", "line 6: cannot be read as OpenQASM ('foo' is not defined in this scope). "),
        (HEAD2 + "opaque foo a;\nfoo q[0];", "line 7: a gate must be known or defined. Given: foo in "),
        (HEAD3 + "x q[0]\ny q[0];", "line 7: invalid OpenQASM 3 at y. "),
        (HEAD3 + "x q[0];\nx q[", "line 7: invalid OpenQASM 3 at <EOF>. "),
        (HEAD3 + "x q[7];", "line 6: cannot be read as OpenQASM (q[7] is out of range: index 7 of 4 bits). "),
        (HEAD3 + "input float w;\nrx(w*w) q[0];", "line 7: an angle must be linear in the inputs. Given: rx(w**2) in "),
        (HEAD3 + "input float w;\nrx(sin(w)) q[0];", "line 7: cannot be read as OpenQASM (sin(w) is not supported). "),
        (
            HEAD3 + "input int w;",
            "line 6: cannot be read as OpenQASM (only 'float' and 'angle' inputs are supported). ",
        ),
        (HEAD3 + "rx(1/0) q[0];", "line 6: cannot be read as OpenQASM (1 / 0 divides by zero). "),
        (HEAD3 + "rx(1e400) q[0];", "line 6: an angle must be a finite number. Given: rx(inf) in "),
        (
            HEAD3 + "// reset\nreset q[0];\nx q[0];",
            "line 8: a qubit must not be used after its reset, which is not unitary. Given: q(0, 0) in ",
        ),
        (
            HEAD3 + "delay[10ns] q[0];",
            "line 6: the circuit must consist of gates, of gates that bits condition, and of measurements. "
            "Given: delay in ",
        ),
        (
            HEAD3 + "c[0] = measure q[0];\nif (c[0]) x q[1];\nh q[0];",
            "line 8: after a qubit is measured in mid-circuit it may control gates and be read out in Z, nothing else",
        ),
        (
            HEAD2 + "measure q[0] -> c[0];\nif (c==1) x q[1];",
            "line 7: a bit must be measured before it conditions a gate. Given: if in ",
        ),
        (
            HEAD3 + "while (c[0]) { x q[0]; }",
            "line 6: the circuit must consist of gates, of gates that bits condition, and of measurements. "
            "Given: while ",
        ),
        (
            HEAD3 + "for int i in [0:2] { x q[0]; }",
            "line 6: the circuit must consist of gates, of gates that bits condition, and of measurements. Given: ",
        ),
        (
            HEAD3 + "def f(qubit a) { x a; }",
            "line 6: the circuit must consist of gates, of gates that bits condition, and of measurements. "
            "Given: def in ",
        ),
        (
            HEAD3 + "c[0] = measure q[0]; x q[0];",
            "line 6: measurements must be at the end of the circuit, unless their bit conditions a gate. "
            "Given: x on qubit 0 ",
        ),
        (
            HEAD3 + "c = measure q; c = measure q;",
            "line 6: measurements must be at the end of the circuit, unless their bit conditions a gate. "
            "Given: measure on ",
        ),
        (
            HEAD3 + "c[0] = measure q[0]; c[0] = measure q[1];",
            "line 6: each bit must have at most one measurement. Given: two of one bit in ",
        ),
        (HEAD3 + "x q[0];" * 25_000, "must have at most 25000 statements. "),
        (HEAD2 + BOMB + "g39 q[0];", "line 46: must have at most 20000 gates. "),
        (HEAD2 + EMPTY + "g39 q[0];", "line 46: must have at most 20000 gates. "),
        (HEAD2 + DEEP + "g499 q[0];", "line 506: gate definitions must be nested at most 100 levels deep. "),
        (HEAD3 + "qubit[0x1FFFFFFF] r;", "line 6: a size must be a whole number, at most 32768. Given: another in "),
        (HEAD3 + "qubit[9*9999] r;", "line 6: a size must be a whole number, at most 32768. Given: another in "),
        (
            HEAD3 + "const int n = 99999; qubit[n] r;",
            "line 6: constants must be written as numbers where they are used. ",
        ),
        (
            HEAD3 + "for int i in [0:2] { x q[i]; }",
            "line 6: the circuit must consist of gates, of gates that bits condition, and ",
        ),
        (
            HEAD3 + "input float a; input float b;\nrx(a) q[0];\nrx(a*b) q[1];",
            "line 8: an angle must be linear in the inputs. ",
        ),
        (
            HEAD3 + "input float a;\npow(2) @ rx(a) q[0];\npow(2) @ U(a,0.1,0.2) q[0];",
            "line 8: pow @ of a gate with inputs or arguments must be of rx, ry, rz, p or cp. Given: ",
        ),
        (HEAD3 + "input float a;\nx q[0];", "line 6: every input must be used by a gate. Given: a in "),
        ("OPENQASM 3;\nbit[2] c;", "the circuit must have qubits. Given: none in "),
        (
            HEAD2 + "gate g(a) b { ry(ln(a)) b; }\ng(-1) q[0];",
            "line 7: a gate definition must compute numbers from its arguments (",
        ),
        (
            HEAD3 + "ctrl(1000000000000) @ x q[0];",
            "line 6: ctrl must have a whole number of controls, 1 to 32768. Given: another in ",
        ),
        (
            HEAD3 + "gate g a { ctrl(20000) @ negctrl(20000) @ x a; }",
            "line 6: ctrl must have a whole number of controls, 1 to 32768. Given: another in ",
        ),
        (HEAD3 + "ctrl(9*9) @ x q[0];", "line 6: ctrl must have a whole number of controls, 1 to 32768. "),
        ("OPENQASM 3;" + "qubit[0x8000] q;" * 3, "registers must have at most 65536 bits together. Given: 98304 in "),
        (
            "OPENQASM 2.0;qreg q[32768];creg c[32768];qreg r [ 1 ];",
            "registers must have at most 65536 bits together. Given: 65537 in ",
        ),
        (HEAD3 + "rx(1 ? 1 : 2) q[0];", "line 6: cannot be read as OpenQASM (token recognition error at: '?'). "),
        (
            HEAD2 + "opaque rzz(a) x, y;\nrzz(0.2) q[0], q[1];",
            "line 7: a gate must be known or defined. Given: rzz in ",
        ),
        (HEAD2 + "cry(0.2) q[0], q[1];\ngate cry(a) x, y { cx x, y; }", "line 6: cannot be read as OpenQASM ('cry' is"),
        (
            HEAD3 + "sx q[0];\ngate sx a { x a; }",
            "line 6: cannot be read as OpenQASM (sx is used before its definition",
        ),
        (
            HEAD3 + "gate more a { more a; }",
            "line 6: cannot be read as OpenQASM (more is used before its definition). ",
        ),
        (HEAD3 + "gate two(a) a { x a; }", "line 6: cannot be read as OpenQASM (a is declared twice). "),
        (HEAD3 + "gate y(h) a {\nh a; }", "line 7: cannot be read as OpenQASM (h is an argument of the gate that is "),
        (
            HEAD3 + "rx(2/3*pi) q[0];",
            "line 6: cannot be read as OpenQASM (2 / 3 is an integer division with a remainder, ",
        ),
        (HEAD3 + "\npow(-5/2) @ y q[1];", "line 7: cannot be read as OpenQASM (-5 / 2 is an integer division with a "),
        (
            HEAD3 + "gate g(a) b {\nry(a*(1+2)/4) b;\nry(1/4*a) b; }",
            "line 8: cannot be read as OpenQASM (1 / 4 is an integer division ",
        ),
        (HEAD3 + "x q[3/2];", "line 6: cannot be read as OpenQASM (3 / 2 is an integer division with a remainder, "),
        (HEAD3 + "input float w;\nrx(w/0) q[0];", "line 7: cannot be read as OpenQASM (w / 0 divides by zero). "),
        (HEAD3 + 'rx("01") q[0];', 'line 6: cannot be read as OpenQASM ("01" is not supported). '),
        (HEAD3 + "x q[2:5];", "line 6: cannot be read as OpenQASM (q[2:5] is out of range: index 5 of 4 bits). "),
        (HEAD3 + "x q[-5];", "line 6: cannot be read as OpenQASM (q[-5] is out of range: index -5 of 4 bits). "),
        (
            HEAD3 + "x q[{0, 4}];",
            "line 6: cannot be read as OpenQASM (q[{0, 4}] is out of range: index 4 of 4 bits). ",
        ),
        ("OPENQASM 3;\nU(0, 0, 0) $99999999999;", "line 2: registers must have at most 32768 bits. "),
        (HEAD3 + "x q[2:1];", "line 6: cannot be read as OpenQASM (q[2:1] selects no bits). "),
        (HEAD3 + "x q[0:0:2];", "line 6: cannot be read as OpenQASM (q[0:0:2] has a step of 0). "),
        (HEAD3 + "x q[0:1.5];", "line 6: cannot be read as OpenQASM (an index must be an integer, not 1.5). "),
        (HEAD3 + "swap q[1];", "line 6: cannot be read as OpenQASM (swap takes 2 qubits, not 1). "),
        (HEAD3 + "ctrl @ z q[1];", "line 6: cannot be read as OpenQASM (z takes 2 qubits, not 1). "),
        (HEAD3 + "ctrl @ gphase(0.2);", "line 6: cannot be read as OpenQASM (gphase takes 1 qubit, not 0). "),
        (HEAD3 + "U(0.1, 0.2) q[0];", "line 6: cannot be read as OpenQASM (U takes 3 angles, not 2). "),
        (
            HEAD3 + "gate g a { x a; }\ng(0.1) q[0];",
            "line 7: cannot be read as OpenQASM (g takes 0 angles, not 1",
        ),
        (HEAD3 + "cz q[1], q[1];", "line 6: cannot be read as OpenQASM (duplicate bit arguments in cz q[1], q[1];). "),
        (
            HEAD3 + "input angle s;",
            "line 6: cannot be read as OpenQASM (s is already the name of a gate of stdgates.inc",
        ),
        (HEAD3 + "bit U;", "line 6: cannot be read as OpenQASM (U is already the name of a gate of OpenQASM 3). "),
        (
            HEAD3 + "qubit tau;",
            "line 6: cannot be read as OpenQASM (tau is already the name of a number of OpenQASM 3). ",
        ),
        (HEAD3 + "let c = q;", "line 6: cannot be read as OpenQASM (c is already declared in line 4). "),
        (HEAD3 + "gate g a { x a; }\nbit g;", "line 7: cannot be read as OpenQASM (g is already declared in line 6). "),
        (
            HEAD3 + "c[0] = measure q;",
            "line 6: cannot be read as OpenQASM (register size error in c[0] = measure q;). ",
        ),
        (HEAD3 + "x q[0];\nc[0] = 1;", "line 7: cannot be read as OpenQASM (c[0] = 1; is not supported). "),
        (
            HEAD3 + "\nlet a = q[0] ++ q[1];",
            "line 7: cannot be read as OpenQASM (q[0] ++ q[1] has operands of ",
        ),
        (
            HEAD3 + "def act(qreg r[2]) { x r[0]; }",
            "line 6: the circuit must consist of gates, of gates that bits condition, and ",
        ),
        (
            HEAD3 + "gate g a {\ndelay[1ns] a; }",
            "line 7: the circuit must consist of gates, of gates that bits condition, and ",
        ),
        (HEAD3 + "x q[0];\nconst float f = 0.5;\nrx(f) q[0];", "line 7: constants must be written as numbers where "),
    ],
)
def test_invalid_openqasm_is_rejected(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as error:
        openqasm.read(text, "a.qasm")
    message = str(error.value)
    assert message.startswith(f"model: {line}")
    assert message.endswith("a.qasm")
    assert "Given: " in message
    assert "\n" not in message


def test_u0_of_any_duration_has_no_gates() -> None:
    """Qiskit creates one gate per unit of the duration."""
    assert openqasm.read(HEAD2 + "u0(1e9) q[0];", "a.qasm") == openqasm.read(HEAD2, "a.qasm")


def test_circuit_with_more_qubits_than_ring_is_rejected() -> None:
    model = embed("a.qasm", cirq_json.to_json(openqasm.read(HEAD2, "a.qasm")))
    assert len(build(model, 6).readouts) == 5
    with pytest.raises(ConfigError, match=r"^qubits: must be at least 5, the qubits of a.qasm@[0-9a-f]{8}. Given: 4$"):
        build(model, 4)
