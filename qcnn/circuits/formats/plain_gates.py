"""Decompose circuits into gates that OpenQASM and Qiskit know by name."""

import dataclasses
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import cirq
import numpy as np
import numpy.typing as npt
import sympy

from qcnn.circuits.ansatz import decompose_once
from qcnn.errors import ConfigError, single_line

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
