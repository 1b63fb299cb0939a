"""Circuits as cirq JSON of [circuit, symbols, readouts, inputs], for digests and embedded circuits.

The inputs are omitted if there are none.
"""

import dataclasses
import json
import re
from typing import Any

import cirq
import sympy
from cirq.protocols.json_serialization import CirqEncoder, JsonResolver

from qcnn.circuits import observables
from qcnn.circuits.ansatz import Ansatz
from qcnn.circuits.deferred_measurements import conditioning_keys
from qcnn.circuits.formats.embedded import MAX_QUBITS
from qcnn.circuits.input_functions import FUNCTIONS
from qcnn.errors import ConfigError, single_line

# Subcircuits can have any number of repetitions and powers any number of digits, so small files could exhaust memory.
_UNSUPPORTED = ("CircuitOperation", "sympy.Pow")
# Powers of expressions of inputs: of a symbol or a sum without another power, with an exponent that is not large.
_MAX_POWER = 8
# Functions of inputs, which cirq does not write.
_FUNCTION = "sympy.{}"
# The only power in cirq's gates with angles, such as `cirq.cphase`: 1/pi.
_OVER_PI = {"cirq_type": "sympy.Pow", "args": [{"cirq_type": "sympy.pi"}, {"cirq_type": "sympy.Integer", "i": -1}]}

# Text without brackets and commas, except in strings and empty brackets, and the bracket or comma after it.
_JSON_MARK = re.compile(r'((?:[^"\[\]{},]++|"(?:[^"\\]|\\.)*"|\[\]|\{\})*+)([\[\]{},])')
# Text without which `read` has no part to reject. A backslash can be the escape of any other character.
_SUSPICIOUS = ("\\", '"num_', *(f'"{name}"' for name in _UNSUPPORTED))


def to_json(ansatz: Ansatz) -> str:
    """Return an ansatz as cirq JSON. Equal circuits have equal JSON.

    Raises:
        TypeError, ValueError: If the circuit contains custom gates that cirq cannot write.
    """
    readouts = [list(each) if isinstance(each, tuple) else each for each in ansatz.readouts]
    parts = [ansatz.circuit, list(ansatz.symbols), readouts, *([list(ansatz.inputs)] if ansatz.inputs else [])]
    # Python's json encodes indented text four times as slowly, and digests are of indented text.
    encoder = _Encoder if ansatz.inputs else CirqEncoder
    return _indented(cirq.to_json(parts, indent=None, separators=(",", ": "), cls=encoder))


class _Encoder(CirqEncoder):
    """Encoder that also writes functions of inputs."""

    def default(self, o: Any) -> Any:
        if isinstance(o, sympy.Function) and type(o).__name__ in FUNCTIONS:
            return {"cirq_type": _FUNCTION.format(type(o).__name__), "args": o.args}
        return super().default(o)


def _resolve_function(cirq_type: str) -> Any:
    """Return the factory of a function of inputs by its type in JSON, or None for another type."""
    names = {_FUNCTION.format(function): function for function in FUNCTIONS}
    return (lambda args: getattr(sympy, names[cirq_type])(*args)) if cirq_type in names else None


def _indented(compact: str) -> str:
    """Return JSON without blanks after commas as `json.dumps(indent=2)` writes it."""
    lines: list[str] = []
    indent = "\n"
    for text, mark in _JSON_MARK.findall(compact):
        if mark in ("[", "{"):
            indent += "  "
            lines += (text, mark, indent)
        elif mark == ",":
            lines += (text, mark, indent)
        else:
            indent = indent[:-2]
            lines += (text, indent, mark)
    return "".join(lines)


def read(content: str, name: str) -> Ansatz:
    """Parse cirq JSON of [circuit, symbols, readouts], with or without inputs, or of a circuit.

    Qubits 0, 1, ... of a line or of row 0 of a grid become the qubits of the ring with the same index. Other qubits
    become qubits of the ring in their order. For a circuit alone, the symbols are sorted by name as in cirq. Its
    readouts are the qubits with final measurements, in the order of the measurements, or all qubits if there are none.

    Args:
        content: Text of the file.
        name: Name of the file, for error messages.

    Returns:
        Ansatz on the first qubits of the ring.

    Raises:
        ConfigError: If the content is invalid or a measurement is not final.
    """

    def check_part(part: dict[str, Any]) -> dict[str, Any]:
        if part.get("cirq_type") in _UNSUPPORTED and part != _OVER_PI and not _is_small_power(part):
            raise ConfigError(
                "model: the file's circuit must consist of gates with exponents linear in the symbols. "
                f"Given: {part['cirq_type']} in {name}"
            )
        for key, value in part.items():
            # Checked before cirq allocates this number of objects.
            if key.startswith("num_") and isinstance(value, int) and value > MAX_QUBITS:
                raise ConfigError(f"model: {key} of a gate must be at most {MAX_QUBITS}. Given: {value} in {name}")
        return part

    try:
        if any(text in content for text in _SUSPICIOUS):
            json.loads(content, object_hook=check_part)
        # cirq.read_json() creates cirq's types only, so a file cannot execute code.
        resolvers: list[JsonResolver] = [_resolve_function, *cirq.DEFAULT_RESOLVERS]
        return move_to_ring(_to_ansatz(cirq.read_json(json_text=content, resolvers=resolvers), name), name)
    except ConfigError:
        raise
    except Exception as error:  # cirq raises errors of many types for invalid numbers, names and qubits.
        reason = f"{type(error).__name__}: {single_line(error)}"
        raise ConfigError(f"model: the file must be valid cirq JSON ({reason}). Given: {name}") from None


def _is_small_power(part: dict[str, Any]) -> bool:
    """Return whether a part of a file is a power of an expression of inputs that takes little time and memory."""
    if part.get("cirq_type") != "sympy.Pow" or len(part.get("args", ())) != 2:
        return False
    base, power = part["args"]
    text = json.dumps(base)
    if "sympy.Symbol" not in text or "sympy.Pow" in text.replace(json.dumps(_OVER_PI), ""):
        return False
    match power:
        case {"cirq_type": "sympy.Integer", "i": int(number)}:
            return abs(number) <= _MAX_POWER
        case {"cirq_type": "sympy.Rational", "p": 1 | -1, "q": 2}:
            return True
    return False


def _to_ansatz(found: object, name: str) -> Ansatz:
    match found:
        case cirq.AbstractCircuit():
            return from_circuit(found.unfreeze(), name)
        case [cirq.AbstractCircuit() as circuit, list(symbols), list(readouts)]:
            return Ansatz(circuit.unfreeze(), tuple(symbols), tuple(readouts))
        case [cirq.AbstractCircuit() as circuit, list(symbols), list(readouts), list(inputs)]:
            return Ansatz(circuit.unfreeze(), tuple(symbols), tuple(readouts), tuple(inputs))
    raise ConfigError(
        "model: cirq JSON must hold a cirq.Circuit, or [circuit, symbols, readouts], or these and inputs. "
        f"Given: {type(found).__name__} in {name}"
    )


def from_circuit(circuit: cirq.Circuit, name: str) -> Ansatz:
    """Return a circuit of cirq as an ansatz. See `read` for its symbols and readouts.

    Args:
        circuit: Circuit, whose measurements are at its end or condition gates.
        name: Name of the circuit, for error messages.

    Raises:
        ConfigError: If a measurement is not supported.
    """
    measured: dict[cirq.Qid, None] = {}
    operations: list[cirq.Operation] = []
    in_mid_circuit = conditioning_keys(circuit)
    # Qubits that are no readouts if none is measured at the end.
    used_up: set[cirq.Qid] = set()
    for operation in circuit.all_operations():
        if again := [qubit for qubit in operation.qubits if qubit in measured]:
            raise ConfigError(
                f"model: measurements must be at the end of the circuit. Given: {again[0]} measured before "
                f"{single_line(operation)} in {name}"
            )
        if isinstance(operation.gate, cirq.ResetChannel):
            used_up.update(operation.qubits)
        if isinstance(operation.gate, cirq.MeasurementGate):
            if cirq.measurement_key_name(operation) in in_mid_circuit:
                used_up.update(operation.qubits)
                operations.append(operation)
                continue
            if any(operation.gate.full_invert_mask()) or operation.gate.confusion_map:
                raise ConfigError(
                    "model: a measurement must not have an invert_mask or a confusion_map. "
                    f"Given: {single_line(operation)} in {name}"
                )
            measured.update(dict.fromkeys(operation.qubits))
        else:
            operations.append(operation)
    symbols = sorted(cirq.parameter_symbols(circuit), key=_sort_key)
    readouts = tuple(measured) or tuple(sorted(circuit.all_qubits() - used_up))
    return Ansatz(cirq.Circuit(operations), tuple(symbols), readouts)


def _sort_key(symbol: sympy.Symbol) -> Any:
    """Return the sort key of a symbol. It sorts s2 before s10, as cirq sorts qubits."""
    return cirq.NamedQubit(symbol.name)


def move_to_ring(ansatz: Ansatz, name: str) -> Ansatz:
    """Return an ansatz on the first qubits of the ring. See `read`.

    Args:
        ansatz: Ansatz on any qubits.
        name: Name of the circuit, for error messages.

    Raises:
        ConfigError: If a qubit has not two levels.
    """
    qubits = sorted(ansatz.qubits)
    if wrong := [qubit for qubit in qubits if qubit.dimension != 2]:
        raise ConfigError(f"model: qubits must have two levels. Given: {single_line(wrong[0])} in {name}")
    numbers = [_ring_index(qubit) for qubit in qubits]
    places = [number for number in numbers if number is not None]
    if len(set(places)) < len(qubits):
        places = list(range(len(qubits)))
    moved: dict[cirq.Qid, cirq.Qid] = {
        qubit: cirq.GridQubit(0, place) for qubit, place in zip(qubits, places, strict=True)
    }
    if all(qubit == other for qubit, other in moved.items()):
        return ansatz
    readouts = tuple(observables.moved(readout, moved) for readout in ansatz.readouts)
    return dataclasses.replace(ansatz, circuit=ansatz.circuit.transform_qubits(moved), readouts=readouts)


def width(ansatz: Ansatz) -> int:
    """Return the number of qubits of the ring up to the last one in an ansatz."""
    return 1 + max(_ring_index(qubit) or 0 for qubit in ansatz.qubits)


def _ring_index(qubit: cirq.Qid) -> int | None:
    """Return the index of a qubit on the ring, or None if the qubit has no index."""
    match qubit:
        case cirq.GridQubit(row=0, col=int(number)) | cirq.LineQubit(x=int(number)) if number >= 0:
            return int(number)
    return None
