"""A circuit as cirq's JSON of [circuit, symbols, readouts]: what fingerprints are taken of, and texts hold."""

import json
from typing import Any

import cirq
import sympy

from qcnn.circuits.ansatz import Ansatz
from qcnn.circuits.formats.embedded import MAX_QUBITS
from qcnn.errors import ConfigError, single_line

# What a circuit of gates does not need: a circuit within it may be repeated any number of times, a power of a number
# may have any number of digits.
_UNSUPPORTED = ("CircuitOperation", "sympy.Pow")
# The one power that cirq's own gates of angles have, such as `cirq.cphase`: an angle over pi.
_OVER_PI = {"cirq_type": "sympy.Pow", "args": [{"cirq_type": "sympy.pi"}, {"cirq_type": "sympy.Integer", "i": -1}]}


def written(ansatz: Ansatz) -> str:
    """Return the JSON of an ansatz; equal circuits have equal ones.

    Raises:
        TypeError, ValueError: it has gates of the user's own, which cirq cannot write.
    """
    return str(cirq.to_json([ansatz.circuit, list(ansatz.symbols), list(ansatz.readouts)]))


def read(content: str, name: str) -> Ansatz:
    """Return the ansatz of cirq's JSON, on the first qubits of the ring: of [circuit, symbols, readouts], or a circuit.

    Qubits 0, 1, ... of a line or of row 0 of a grid are those of the ring, others take their places in their order. A
    circuit alone has the symbols of its parameters in cirq's order of names, and reads out the qubits that it measures
    at its end, in the order of the measurements; all, if it measures none.

    Raises:
        ConfigError: it is neither, or measures before its end; errors call it by a name.
    """

    def known(part: dict[str, Any]) -> dict[str, Any]:
        if part.get("cirq_type") in _UNSUPPORTED and part != _OVER_PI:
            raise ConfigError(
                "model: the file's circuit must consist of gates with exponents linear in the symbols. "
                f"Given: {part['cirq_type']} in {name}"
            )
        for key, value in part.items():
            # Before it is believed: cirq would make as many.
            if key.startswith("num_") and isinstance(value, int) and value > MAX_QUBITS:
                raise ConfigError(f"model: {key} of a gate must be at most {MAX_QUBITS}. Given: {value} in {name}")
        return part

    try:
        json.loads(content, object_hook=known)
        # Cirq's own kinds alone: what is read from a file runs no code of its choice.
        return _move_to_ring(_to_ansatz(cirq.read_json(json_text=content), name), name)
    except ConfigError:
        raise
    except Exception as error:  # Whatever cirq raises of numbers, names and qubits that are none.
        reason = f"{type(error).__name__}: {single_line(error)}"
        raise ConfigError(f"model: the file is no cirq JSON that can be read ({reason}). Given: {name}") from None


def _to_ansatz(found: object, name: str) -> Ansatz:
    match found:
        case cirq.AbstractCircuit():
            return _from_circuit(found.unfreeze(), name)
        case [cirq.AbstractCircuit() as circuit, list(symbols), list(readouts)]:
            return Ansatz(circuit.unfreeze(), tuple(symbols), tuple(readouts))
    raise ConfigError(
        "model: cirq JSON must hold a cirq.Circuit, or [circuit, symbols, readouts]. "
        f"Given: {type(found).__name__} in {name}"
    )


def _from_circuit(circuit: cirq.Circuit, name: str) -> Ansatz:
    measured: dict[cirq.Qid, None] = {}
    operations = []
    for operation in circuit.all_operations():
        if again := [qubit for qubit in operation.qubits if qubit in measured]:
            raise ConfigError(
                f"model: a qubit may be measured at the circuit's end alone. Given: {again[0]}, on which "
                f"{single_line(operation)} follows, in {name}"
            )
        if isinstance(operation.gate, cirq.MeasurementGate):
            if any(operation.gate.full_invert_mask()) or operation.gate.confusion_map:
                raise ConfigError(
                    "model: a measurement must be as it is read, without invert_mask and confusion_map. "
                    f"Given: {single_line(operation)} in {name}"
                )
            measured.update(dict.fromkeys(operation.qubits))
        else:
            operations.append(operation)
    symbols = sorted(cirq.parameter_symbols(circuit), key=_sort_key)
    return Ansatz(cirq.Circuit(operations), tuple(symbols), tuple(measured) or tuple(sorted(circuit.all_qubits())))


def _sort_key(symbol: sympy.Symbol) -> Any:
    """Return what names are sorted by: s2 before s10, as cirq sorts its qubits."""
    return cirq.NamedQubit(symbol.name)


def _move_to_ring(ansatz: Ansatz, name: str) -> Ansatz:
    qubits = sorted(ansatz.circuit.all_qubits().union(ansatz.readouts))
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
    return Ansatz(
        ansatz.circuit.transform_qubits(moved), ansatz.symbols, tuple(map(moved.__getitem__, ansatz.readouts))
    )


def width(ansatz: Ansatz) -> int:
    """Return on how many of the first qubits of the ring what was read acts."""
    return 1 + max(_ring_index(qubit) or 0 for qubit in ansatz.circuit.all_qubits().union(ansatz.readouts))


def _ring_index(qubit: cirq.Qid) -> int | None:
    """Return the place of a qubit on the ring, None where it is not numbered."""
    match qubit:
        case cirq.GridQubit(row=0, col=int(number)) | cirq.LineQubit(x=int(number)) if number >= 0:
            return int(number)
    return None
