"""Export circuits for other libraries as OpenQASM, QPY or cirq JSON, with standard gate names."""

import dataclasses
import math
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cirq
import numpy as np
import numpy.typing as npt
import sympy

from qcnn.atomic_files import new_file
from qcnn.circuits.ansatz import Ansatz, decompose_once
from qcnn.circuits.formats import cirq_json
from qcnn.circuits.formats.embedded import JSON, QASM
from qcnn.errors import ConfigError, single_line
from qcnn.process.installation import install_command

# Maximum depth of nested decompositions of an operation.
_MAX_DEPTH = 50


@dataclasses.dataclass(frozen=True)
class Angle:
    """Angle in radians: constant + sum of coefficient x input, with inputs in radians, by name."""

    constant: float
    coefficients: tuple[tuple[str, float], ...] = ()


@dataclasses.dataclass(frozen=True)
class PlainGate:
    """Gate with its name in OpenQASM 3's stdgates.inc, or rxx, ryy or rzz."""

    name: str
    angles: tuple[Angle, ...]
    qubits: tuple[cirq.Qid, ...]


# For each type of power gate: names of single exponents, and name of the gate for any angle.
_POWERS: dict[type[cirq.EigenGate], tuple[dict[float, str], str]] = {
    cirq.XPowGate: ({1.0: "x", 0.5: "sx"}, "rx"),
    cirq.YPowGate: ({1.0: "y"}, "ry"),
    cirq.ZPowGate: ({1.0: "z", 0.5: "s", -0.5: "sdg", 0.25: "t", -0.25: "tdg"}, "rz"),
    cirq.HPowGate: ({1.0: "h"}, ""),
    cirq.CXPowGate: ({1.0: "cx"}, ""),
    cirq.CZPowGate: ({1.0: "cz"}, "cp"),
    cirq.XXPowGate: ({}, "rxx"),
    cirq.YYPowGate: ({}, "ryy"),
    cirq.ZZPowGate: ({}, "rzz"),
    cirq.SwapPowGate: ({1.0: "swap"}, ""),
    cirq.CCXPowGate: ({1.0: "ccx"}, ""),
}
_CONTROLLED = {cirq.XPowGate: "crx", cirq.YPowGate: "cry", cirq.ZPowGate: "crz"}


def plain_gates(operations: Iterable[cirq.Operation], depth: int = 0) -> Iterator[PlainGate]:
    """Decompose operations into plain gates.

    Raises:
        ConfigError: If an operation with free parameters cannot be written with these gates.
    """
    for operation in operations:
        # Operations without qubits are global phases.
        if not operation.qubits or isinstance(operation.gate, cirq.IdentityGate):
            continue
        gates = _direct_translation(operation)
        if gates is not None:
            yield from gates
        elif depth < _MAX_DEPTH:
            yield from plain_gates(_decompose(operation), depth + 1)
        else:
            raise _unsupported_operation(operation)


def _direct_translation(operation: cirq.Operation) -> list[PlainGate] | None:
    """Return the plain gates of an operation, or None if it must be decomposed first."""
    gate, qubits = operation.gate, operation.qubits
    if isinstance(gate, cirq.EigenGate) and (kind := _power_type(gate)):
        names, rotation = _POWERS[kind]
        if not cirq.is_parameterized(gate) and (name := names.get(float(gate.exponent))):
            return [PlainGate(name, (), qubits)]
        return [PlainGate(rotation, (_angle(gate.exponent, operation),), qubits)] if rotation else None
    if isinstance(gate, cirq.CSwapGate):
        return [PlainGate("cswap", (), qubits)]
    if isinstance(gate, cirq.ControlledGate) and gate.num_controls() == 1:
        return _translate_controlled(gate, operation)
    return None


def _power_type(gate: cirq.EigenGate) -> type[cirq.EigenGate] | None:
    return next((kind for kind in _POWERS if isinstance(gate, kind)), None)


def _translate_controlled(gate: cirq.ControlledGate, operation: cirq.Operation) -> list[PlainGate] | None:
    """Return a controlled power of X, Y or Z as a controlled rotation and a phase gate on the control."""
    power, control, target = gate.sub_gate, operation.qubits[0], operation.qubits[-1]
    name = next((name for kind, name in _CONTROLLED.items() if isinstance(power, kind)), None)
    values = list(gate.control_values.expand())
    if name is None or len(values) != 1 or not isinstance(power, cirq.EigenGate):
        return None
    angle = _angle(power.exponent, operation)
    phase = _angle(power.exponent * (power.global_shift + 0.5), operation)
    gates = [PlainGate(name, (angle,), (control, target))]
    if phase != Angle(0.0):
        gates.append(PlainGate("p", (phase,), (control,)))
    flip = [] if values == [(1,)] else [PlainGate("x", (), (control,))]
    return [*flip, *gates, *flip]


def _decompose(operation: cirq.Operation) -> Iterable[cirq.Operation]:
    with warnings.catch_warnings():
        # cirq emits warnings about its own code.
        warnings.simplefilter("ignore")
        try:
            parts = decompose_once(operation)
            if parts is None and not cirq.is_parameterized(operation):
                parts = _decompose_matrix(cirq.unitary(operation), operation.qubits)
        except (
            Exception
        ) as error:  # Custom gates can raise any error, and cirq fails for matrices that are not unitary.
            raise _unsupported_operation(operation, f" ({type(error).__name__}: {single_line(error)})") from None
    if parts is None:
        raise _unsupported_operation(operation)
    return parts


def _decompose_matrix(matrix: npt.NDArray[np.complex128], qubits: Sequence[cirq.Qid]) -> Iterable[cirq.Operation]:
    """Decompose a gate that is defined by its matrix."""
    line: list[cirq.Qid] = list(cirq.LineQubit.range(len(qubits)))
    places = dict(zip(line, qubits, strict=True))
    return [part.transform_qubits(places) for part in cirq.quantum_shannon_decomposition(line, matrix)]


def _angle(exponent: Any, operation: cirq.Operation) -> Angle:
    """Convert an exponent (number or linear form of symbols, in units of pi) to an angle in radians."""
    if not isinstance(exponent, sympy.Basic):
        return Angle(math.pi * float(exponent))
    symbols = sorted(exponent.free_symbols, key=lambda symbol: str(symbol.name))
    slopes = [(str(symbol.name), exponent.diff(symbol)) for symbol in symbols]
    if any(slope.free_symbols for _, slope in slopes):
        raise _unsupported_operation(operation)
    constant = math.pi * float(exponent.subs(dict.fromkeys(symbols, 0)))
    return Angle(constant, tuple((name, float(slope)) for name, slope in slopes))


def _unsupported_operation(operation: cirq.Operation, reason: str = "") -> ConfigError:
    hint = " with free parameters; export a trained model" if cirq.is_parameterized(operation) else ""
    return ConfigError(
        f"export: an operation cannot be written as OpenQASM gates{hint}{reason}. Given: {single_line(operation)}"
    )


QPY = ".qpy"
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
    return Ansatz(cirq.resolve_parameters(ansatz.circuit, resolver), (), ansatz.readouts)


def write(ansatz: Ansatz, qubits: Sequence[cirq.Qid], path: Path, version: int, notes: Sequence[str]) -> None:
    """Write a circuit to a file. The file extension selects the format.

    Symbols, in units of pi, become inputs in radians. In cirq JSON they stay symbols. Readouts become final
    measurements, in their order.

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
    if ansatz.symbols and version == OPENQASM2:
        raise ConfigError(
            "export: OpenQASM 2 has no inputs; use OpenQASM 3 or export a trained model. "
            f"Given: {len(ansatz.symbols)} parameters"
        )
    gates = list(plain_gates(ansatz.circuit.all_operations()))
    names = _input_names(ansatz)
    q, c = (_unique_name(name, names.values()) for name in "qc")
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
    lines = [_format_gate(gate, place, names, version) for gate in gates]
    comments = [f"// {note}" for note in notes]
    return "\n".join([head[0], *comments, *head[1:], *defined, *inputs, *registers, *lines, *ends, ""])


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
