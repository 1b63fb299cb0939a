"""Export circuits for other libraries as OpenQASM, QPY or cirq JSON, with standard gate names."""

import dataclasses
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import cirq
import numpy as np
import numpy.typing as npt
import sympy

from qcnn.atomic_files import new_file
from qcnn.circuits.ansatz import Ansatz
from qcnn.circuits.formats import cirq_json
from qcnn.circuits.formats.embedded import JSON, QASM, QPY
from qcnn.circuits.formats.plain_gates import Angle, PlainGate, plain_gates
from qcnn.errors import ConfigError
from qcnn.process.installation import install_command

EXTENSIONS = (QASM, JSON, QPY)
OPENQASM2, OPENQASM3 = 2, 3
# Gates that the include file of a version may lack. For OpenQASM 2 the published file is used (arXiv:1707.03429).
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
# Names in OpenQASM 2 that differ.
_OPENQASM2_NAMES = {"p": "u1", "cp": "cu1"}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# Names in stdgates.inc, and keywords and built-in names of OpenQASM 3.
_RESERVED_NAMES = """
p x y z h s sdg t tdg sx rx ry rz cx cy cz cp crx cry crz ch swap ccx cswap cu CX U phase cphase id u1 u2 u3 gphase
rxx ryy rzz pi tau euler im sin cos tan exp ln log sqrt pow mod popcount rotl rotr ceiling floor arcsin arccos
arctan inv ctrl negctrl gate qubit qreg creg bit bool int uint float angle complex array input output const let
measure reset barrier delay duration stretch box include def defcal cal extern if else for while in return end
break continue switch case default opaque pragma true false void mutable readonly sizeof durationof
OPENQASM defcalgrammar
"""
_RESERVED = frozenset(_RESERVED_NAMES.split())


def bind_parameters(ansatz: Ansatz, values: npt.NDArray[np.float64]) -> Ansatz:
    """Return an ansatz with its symbols replaced by numbers, (parameters,), in units of pi."""
    resolver = dict(zip(ansatz.symbols, values.tolist(), strict=True))
    return dataclasses.replace(ansatz, circuit=cirq.resolve_parameters(ansatz.circuit, resolver), symbols=())


def write(ansatz: Ansatz, qubits: Sequence[cirq.Qid], path: Path, version: int, notes: Sequence[str]) -> None:
    """Write a circuit to a file. The file extension selects the format.

    Symbols, in units of pi, become inputs in radians. In cirq JSON they stay symbols. If all readouts are qubits, they
    become final measurements, in their order. Sums of Pauli strings are written in cirq JSON only.

    Args:
        ansatz: Circuit to write.
        qubits: Qubits of the ring.
        path: File to create.
        version: Version of OpenQASM, 2 or 3.
        notes: Comments for OpenQASM, or metadata for QPY.

    Raises:
        ConfigError: If the extension is unknown, a library is not installed or the format does not support the circuit.
        ArtifactError: If the file cannot be written.
    """
    check_extension(path)
    with new_file(path) as unfinished:
        match path.suffix:
            case ".json":
                unfinished.write_text(_json(ansatz), encoding="utf-8")
            case ".qpy":
                _write_qpy(ansatz, qubits, unfinished, notes)
            case _:
                unfinished.write_text(openqasm(ansatz, qubits, version, notes), encoding="utf-8")


def check_extension(path: Path) -> None:
    """Raise ConfigError if the file extension is not an export format.

    Raises:
        ConfigError: If the extension is not one of `EXTENSIONS`.
    """
    if path.suffix not in EXTENSIONS:
        raise ConfigError(f"export: the file's name must end in one of {', '.join(EXTENSIONS)}. Given: {path}")


def openqasm(ansatz: Ansatz, qubits: Sequence[cirq.Qid], version: int, notes: Iterable[str] = ()) -> str:
    """Return a circuit as OpenQASM, with numbers in full float64 precision.

    Args:
        ansatz: Circuit to write.
        qubits: Qubits of the ring.
        version: Version of OpenQASM, 2 or 3.
        notes: Comments.

    Raises:
        ConfigError: If OpenQASM 2 is requested for a circuit with symbols, or an operation cannot be written.
    """
    if (ansatz.symbols or ansatz.inputs) and version == OPENQASM2:
        raise ConfigError(
            "export: OpenQASM 2 has no inputs; use OpenQASM 3 or export a trained model. "
            f"Given: {len(ansatz.symbols) + len(ansatz.inputs)} parameters"
        )
    ansatz = _inputs_as_parameters(ansatz)
    gates = list(plain_gates(ansatz.circuit.all_operations()))
    names = _input_names(ansatz)
    q, c = (_unique_name(name, names.values()) for name in "qc")
    place = {qubit: f"{q}[{number}]" for number, qubit in enumerate(qubits)}
    used, measured = {gate.name for gate in gates}, _measured(ansatz)
    if version == OPENQASM2:
        head = ["OPENQASM 2.0;", 'include "qelib1.inc";']
        registers = [f"qreg {q}[{len(qubits)}];", *([f"creg {c}[{len(measured)}];"] if measured else [])]
        ends = [f"measure {place[qubit]} -> {c}[{bit}];" for bit, qubit in enumerate(measured)]
        included: Sequence[str] = ()
    else:
        head = ["OPENQASM 3.0;", 'include "stdgates.inc";']
        registers = [f"qubit[{len(qubits)}] {q};", *([f"bit[{len(measured)}] {c};"] if measured else [])]
        ends = [f"{c}[{bit}] = measure {place[qubit]};" for bit, qubit in enumerate(measured)]
        included = _IN_STDGATES
    defined = [f"gate {text}" for name, text in _DEFINITIONS.items() if name in used and name not in included]
    inputs = [f"input float[64] {names[symbol.name]};" for symbol in ansatz.symbols]
    lines = [_format_gate(gate, place, names, version) for gate in gates]
    comments = [f"// {note}" for note in notes]
    return "\n".join([head[0], *comments, *head[1:], *defined, *inputs, *registers, *lines, *ends, ""])


def _inputs_as_parameters(ansatz: Ansatz) -> Ansatz:
    """Return an ansatz whose inputs are parameters in units of pi, so that they keep their values in radians."""
    in_units = {symbol: sympy.pi * symbol for symbol in ansatz.inputs}
    circuit = cirq.resolve_parameters_once(ansatz.circuit, in_units) if in_units else ansatz.circuit
    return dataclasses.replace(ansatz, circuit=circuit, symbols=(*ansatz.inputs, *ansatz.symbols), inputs=())


def _measured(ansatz: Ansatz) -> list[cirq.Qid]:
    """Return the qubits to measure at the end, none if a readout is a sum of Pauli strings."""
    qubits = [readout for readout in ansatz.readouts if isinstance(readout, cirq.Qid)]
    return qubits if len(qubits) == len(ansatz.readouts) else []


def _format_gate(gate: PlainGate, place: dict[cirq.Qid, str], names: dict[str, str], version: int) -> str:
    name = _OPENQASM2_NAMES.get(gate.name, gate.name) if version == OPENQASM2 else gate.name
    angles = f"({', '.join(_format_angle(angle, names) for angle in gate.angles)})" if gate.angles else ""
    return f"{name}{angles} {', '.join(place[qubit] for qubit in gate.qubits)};"


def _format_angle(angle: Angle, names: dict[str, str]) -> str:
    terms = [_format_number(angle.constant)] if angle.constant or not angle.coefficients else []
    for name, factor in angle.coefficients:
        terms.append({1.0: names[name], -1.0: f"-{names[name]}"}.get(factor, f"{_format_number(factor)}*{names[name]}"))
    return " + ".join(terms).replace("+ -", "- ")


def _format_number(value: float) -> str:
    """Return a number in full precision. OpenQASM 2 requires a decimal point, as in 1.0e-17."""
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


def _input_names(ansatz: Ansatz) -> dict[str, str]:
    """Return the names of inputs by symbol. They differ if the symbol's name is not valid in OpenQASM."""
    symbols = [str(symbol.name) for symbol in ansatz.symbols]
    free = {name for name in symbols if _IDENTIFIER.fullmatch(name) and name not in _RESERVED}
    return {
        name: name if name in free else _unique_name(f"parameter_{number}", free) for number, name in enumerate(symbols)
    }


def _unique_name(name: str, taken: Collection[str]) -> str:
    """Return a name, with underscores appended until it is unique."""
    while name in taken:
        name += "_"
    return name


def _json(ansatz: Ansatz) -> str:
    try:
        return cirq_json.to_json(ansatz)
    except (TypeError, ValueError):
        raise ConfigError(
            "export: custom gates cannot be written as cirq JSON; use .qasm or .qpy. Given: .json"
        ) from None


def _write_qpy(ansatz: Ansatz, qubits: Sequence[cirq.Qid], path: Path, notes: Sequence[str]) -> None:
    try:
        from qiskit import ClassicalRegister, QuantumCircuit, QuantumRegister, qpy
        from qiskit.circuit import Parameter
    except ImportError:
        raise ConfigError(
            f"export: needs Qiskit, which is not installed: {install_command('run')}. Given: {QPY}"
        ) from None
    ansatz = _inputs_as_parameters(ansatz)
    place = {qubit: number for number, qubit in enumerate(qubits)}
    inputs = {str(symbol.name): Parameter(symbol.name) for symbol in ansatz.symbols}
    circuit = QuantumCircuit(
        QuantumRegister(len(qubits), "q"),
        ClassicalRegister(len(_measured(ansatz)), "c"),
        metadata={"notes": list(notes), "parameters": list(inputs)},
    )
    for gate in plain_gates(ansatz.circuit.all_operations()):
        angles: list[Any] = [
            angle.constant + sum(factor * inputs[name] for name, factor in angle.coefficients) for angle in gate.angles
        ]
        getattr(circuit, gate.name)(*angles, *(place[qubit] for qubit in gate.qubits))
    for bit, qubit in enumerate(_measured(ansatz)):
        circuit.measure(place[qubit], bit)
    with path.open("wb") as file:
        qpy.dump(circuit, file)
