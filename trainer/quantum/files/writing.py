"""Circuits as files of other libraries: OpenQASM 2 and 3, Qiskit's QPY, and cirq's JSON."""

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import cirq
import numpy as np
import numpy.typing as npt

from qcnn.trainer.errors import ConfigError
from qcnn.trainer.folders import new_file
from qcnn.trainer.quantum.ansatz import Ansatz
from qcnn.trainer.quantum.files import canonical
from qcnn.trainer.quantum.files.held import JSON, QASM
from qcnn.trainer.quantum.files.plain_gates import Angle, PlainGate, plain_gates

QPY = ".qpy"
ENDINGS = (QASM, JSON, QPY)
OPENQASM2, OPENQASM3 = 2, 3
# Gates that a version's include file may lack: that of OpenQASM 2 as it was published (arXiv:1707.03429).
_DEFINITIONS = {
    "sx": "sx a { rx(pi/2) a; }",
    "swap": "swap a, b { cx a, b; cx b, a; cx a, b; }",
    "cswap": "cswap a, b, c { cx c, b; ccx a, b, c; cx c, b; }",
    "crx": "crx(t) a, b { h b; crz(t) a, b; h b; }",
    "cry": "cry(t) a, b { ry(t/2) b; cx a, b; ry(-t/2) b; cx a, b; }",
    "rxx": "rxx(t) a, b { h a; h b; cx a, b; rz(t) b; cx a, b; h a; h b; }",
    "ryy": "ryy(t) a, b { rx(pi/2) a; rx(pi/2) b; cx a, b; rz(t) b; cx a, b; rx(-pi/2) a; rx(-pi/2) b; }",
    "rzz": "rzz(t) a, b { cx a, b; rz(t) b; cx a, b; }",
}
_IN_STDGATES = ("sx", "swap", "cswap", "crx", "cry")
# How OpenQASM 2 calls them.
_EARLIER = {"p": "u1", "cp": "cu1"}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# Names of stdgates.inc and words of OpenQASM 3.
_WORDS = """
p x y z h s sdg t tdg sx rx ry rz cx cy cz cp crx cry crz ch swap ccx cswap cu CX U phase cphase id u1 u2 u3 gphase
rxx ryy rzz pi tau euler im sin cos tan exp ln log sqrt pow mod popcount rotl rotr ceiling floor arcsin arccos
arctan inv ctrl negctrl gate qubit qreg creg bit bool int uint float angle complex array input output const let
measure reset barrier delay duration stretch box include def defcal cal extern if else for while in return end
break continue switch case default opaque pragma true false void mutable readonly sizeof durationof
OPENQASM defcalgrammar
"""
_TAKEN = frozenset(_WORDS.split())


def bound(ansatz: Ansatz, values: npt.NDArray[np.float64]) -> Ansatz:
    """Return an ansatz with numbers, (parameters,) in turns of pi, in place of its symbols."""
    resolver = dict(zip(ansatz.symbols, values.tolist(), strict=True))
    return Ansatz(cirq.resolve_parameters(ansatz.circuit, resolver), (), ansatz.readouts)


def write(ansatz: Ansatz, qubits: Sequence[cirq.Qid], path: Path, version: int, notes: Sequence[str]) -> None:
    """Write a circuit on a ring of qubits in the form that the file's ending says.

    Symbols, in turns of pi, become inputs in radians, but in cirq's JSON, which has them as they are. Readouts become
    measurements at the end, in their order. Of OpenQASM a version is written, with `notes` as comments.

    Raises:
        ConfigError: the ending is of no form, a library is not installed, or the form cannot hold the circuit.
        ArtifactError: the file cannot be written.
    """
    check_ending(path)
    with new_file(path) as unfinished:
        match path.suffix:
            case ".json":
                unfinished.write_text(_json(ansatz), encoding="utf-8")
            case ".qpy":
                _write_qpy(ansatz, qubits, unfinished, notes)
            case _:
                unfinished.write_text(openqasm(ansatz, qubits, version, notes), encoding="utf-8")


def check_ending(path: Path) -> None:
    """Refuse the name of a file of no form.

    Raises:
        ConfigError: its ending is of none.
    """
    if path.suffix not in ENDINGS:
        raise ConfigError(f"export: the file's name must end in one of {', '.join(ENDINGS)}. Given: {path}")


def openqasm(ansatz: Ansatz, qubits: Sequence[cirq.Qid], version: int, notes: Iterable[str] = ()) -> str:
    """Return a circuit as OpenQASM 2 or 3; numbers to the last digit of a float64.

    Raises:
        ConfigError: OpenQASM 2 has no inputs, or an operation no form in its gates.
    """
    if ansatz.symbols and version == OPENQASM2:
        raise ConfigError(
            "export: OpenQASM 2 has no inputs; give a trained model, whose parameters are numbers, or take OpenQASM 3. "
            f"Given: {len(ansatz.symbols)} parameters"
        )
    gates = list(plain_gates(ansatz.circuit.all_operations()))
    names = _inputs(ansatz)
    q, c = (_free(name, names.values()) for name in "qc")
    place = {qubit: f"{q}[{number}]" for number, qubit in enumerate(qubits)}
    used = {gate.name for gate in gates}
    if version == OPENQASM2:
        head = ["OPENQASM 2.0;", 'include "qelib1.inc";']
        registers = [f"qreg {q}[{len(qubits)}];", f"creg {c}[{len(ansatz.readouts)}];"]
        ends = [f"measure {place[qubit]} -> {c}[{bit}];" for bit, qubit in enumerate(ansatz.readouts)]
        included: Sequence[str] = ()
    else:
        head = ["OPENQASM 3.0;", 'include "stdgates.inc";']
        registers = [f"qubit[{len(qubits)}] {q};", f"bit[{len(ansatz.readouts)}] {c};"]
        ends = [f"{c}[{bit}] = measure {place[qubit]};" for bit, qubit in enumerate(ansatz.readouts)]
        included = _IN_STDGATES
    defined = [f"gate {text}" for name, text in _DEFINITIONS.items() if name in used and name not in included]
    inputs = [f"input float[64] {names[symbol.name]};" for symbol in ansatz.symbols]
    lines = [_line(gate, place, names, version) for gate in gates]
    comments = [f"// {note}" for note in notes]
    return "\n".join([head[0], *comments, *head[1:], *defined, *inputs, *registers, *lines, *ends, ""])


def _line(gate: PlainGate, place: dict[cirq.Qid, str], names: dict[str, str], version: int) -> str:
    name = _EARLIER.get(gate.name, gate.name) if version == OPENQASM2 else gate.name
    angles = f"({', '.join(_form(angle, names) for angle in gate.angles)})" if gate.angles else ""
    return f"{name}{angles} {', '.join(place[qubit] for qubit in gate.qubits)};"


def _form(angle: Angle, names: dict[str, str]) -> str:
    terms = [_number(angle.constant)] if angle.constant or not angle.coefficients else []
    for name, factor in angle.coefficients:
        terms.append({1.0: names[name], -1.0: f"-{names[name]}"}.get(factor, f"{_number(factor)}*{names[name]}"))
    return " + ".join(terms).replace("+ -", "- ")


def _number(value: float) -> str:
    """Return a number to its last digit; OpenQASM 2 wants a point in 1.0e-17."""
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


def _inputs(ansatz: Ansatz) -> dict[str, str]:
    """Return what the inputs of a file are called: as the symbols, where that is a name that is not taken."""
    symbols = [str(symbol.name) for symbol in ansatz.symbols]
    free = {name for name in symbols if _IDENTIFIER.fullmatch(name) and name not in _TAKEN}
    return {name: name if name in free else _free(f"parameter_{number}", free) for number, name in enumerate(symbols)}


def _free(name: str, taken: Collection[str]) -> str:
    """Return a name, with as many underscores behind it as make it one that is not taken."""
    while name in taken:
        name += "_"
    return name


def _json(ansatz: Ansatz) -> str:
    try:
        return canonical.written(ansatz)
    except (TypeError, ValueError):
        raise ConfigError(
            "export: cirq cannot write gates of one's own as JSON; take .qasm or .qpy. Given: .json"
        ) from None


def _write_qpy(ansatz: Ansatz, qubits: Sequence[cirq.Qid], path: Path, notes: Sequence[str]) -> None:
    try:
        from qiskit import ClassicalRegister, QuantumCircuit, QuantumRegister, qpy
        from qiskit.circuit import Parameter
    except ImportError:
        raise ConfigError(
            f'export: needs Qiskit, which is not installed: pip install "qcnn[run]". Given: {QPY}'
        ) from None
    place = {qubit: number for number, qubit in enumerate(qubits)}
    inputs = {str(symbol.name): Parameter(symbol.name) for symbol in ansatz.symbols}
    circuit = QuantumCircuit(
        QuantumRegister(len(qubits), "q"),
        ClassicalRegister(len(ansatz.readouts), "c"),
        metadata={"notes": list(notes), "parameters": list(inputs)},
    )
    for gate in plain_gates(ansatz.circuit.all_operations()):
        angles: list[Any] = [
            angle.constant + sum(factor * inputs[name] for name, factor in angle.coefficients) for angle in gate.angles
        ]
        getattr(circuit, gate.name)(*angles, *(place[qubit] for qubit in gate.qubits))
    for bit, qubit in enumerate(ansatz.readouts):
        circuit.measure(place[qubit], bit)
    with path.open("wb") as file:
        qpy.dump(circuit, file)
