"""Cirq's operations as gates that every library knows by the same name, equal up to a global phase."""

import dataclasses
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import cirq
import numpy as np
import numpy.typing as npt
import sympy

from qcnn.trainer.errors import ConfigError, one_line
from qcnn.trainer.quantum.decomposition import decomposed

# How often an operation may decompose into operations that decompose in turn.
_MOST_DEPTH = 50


@dataclasses.dataclass(frozen=True)
class Angle:
    """An angle in radians: constant + sum of coefficient x input, of inputs in radians by their names."""

    constant: float
    coefficients: tuple[tuple[str, float], ...] = ()


@dataclasses.dataclass(frozen=True)
class PlainGate:
    """A gate by its name in OpenQASM 3's stdgates.inc, or rxx, ryy or rzz."""

    name: str
    angles: tuple[Angle, ...]
    qubits: tuple[cirq.Qid, ...]


# Of a power of a gate, by its kind: how the gate itself is called, and what turns by any angle.
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
    """Yield what operations are made of.

    Raises:
        ConfigError: an operation with free parameters has no form in these gates.
    """
    for operation in operations:
        # A global phase acts on none.
        if not operation.qubits or isinstance(operation.gate, cirq.IdentityGate):
            continue
        made = _made(operation)
        if made is not None:
            yield from made
        elif depth < _MOST_DEPTH:
            yield from plain_gates(_parts(operation), depth + 1)
        else:
            raise _unwritable(operation)


def _made(operation: cirq.Operation) -> list[PlainGate] | None:
    """Return the gates of an operation, None where it has first to be decomposed."""
    gate, qubits = operation.gate, operation.qubits
    if isinstance(gate, cirq.EigenGate) and (kind := _kind(gate)):
        names, turning = _POWERS[kind]
        if not cirq.is_parameterized(gate) and (name := names.get(float(gate.exponent))):
            return [PlainGate(name, (), qubits)]
        return [PlainGate(turning, (_angle(gate.exponent, operation),), qubits)] if turning else None
    if isinstance(gate, cirq.CSwapGate):
        return [PlainGate("cswap", (), qubits)]
    if isinstance(gate, cirq.ControlledGate) and gate.num_controls() == 1:
        return _controlled(gate, operation)
    return None


def _kind(gate: cirq.EigenGate) -> type[cirq.EigenGate] | None:
    return next((kind for kind in _POWERS if isinstance(gate, kind)), None)


def _controlled(gate: cirq.ControlledGate, operation: cirq.Operation) -> list[PlainGate] | None:
    """Return what a controlled power of X, Y or Z is made of: a controlled rotation, and a phase of its control."""
    power, control, target = gate.sub_gate, operation.qubits[0], operation.qubits[-1]
    name = next((name for kind, name in _CONTROLLED.items() if isinstance(power, kind)), None)
    values = list(gate.control_values.expand())
    if name is None or len(values) != 1 or not isinstance(power, cirq.EigenGate):
        return None
    angle = _angle(power.exponent, operation)
    phase = _angle(power.exponent * (power.global_shift + 0.5), operation)
    turned = [PlainGate(name, (angle,), (control, target))]
    if phase != Angle(0.0):
        turned.append(PlainGate("p", (phase,), (control,)))
    flip = [] if values == [(1,)] else [PlainGate("x", (), (control,))]
    return [*flip, *turned, *flip]


def _parts(operation: cirq.Operation) -> Iterable[cirq.Operation]:
    with warnings.catch_warnings():
        # Cirq's, of its own code.
        warnings.simplefilter("ignore")
        try:
            parts = decomposed(operation)
            if parts is None and not cirq.is_parameterized(operation):
                parts = _of_matrix(cirq.unitary(operation), operation.qubits)
        except (
            Exception
        ) as error:  # Whatever a gate of somebody's own raises, or cirq of a matrix that is hardly unitary.
            raise _unwritable(operation, f" ({type(error).__name__}: {one_line(error)})") from None
    if parts is None:
        raise _unwritable(operation)
    return parts


def _of_matrix(matrix: npt.NDArray[np.complex128], qubits: Sequence[cirq.Qid]) -> Iterable[cirq.Operation]:
    """Return what makes a gate that is only known by its matrix."""
    line: list[cirq.Qid] = list(cirq.LineQubit.range(len(qubits)))
    places = dict(zip(line, qubits, strict=True))
    return [part.transform_qubits(places) for part in cirq.quantum_shannon_decomposition(line, matrix)]


def _angle(exponent: Any, operation: cirq.Operation) -> Angle:
    """Return an exponent, a number or a linear form of symbols in turns of pi, as an angle of inputs in radians."""
    if not isinstance(exponent, sympy.Basic):
        return Angle(math.pi * float(exponent))
    symbols = sorted(exponent.free_symbols, key=lambda symbol: str(symbol.name))
    slopes = [(str(symbol.name), exponent.diff(symbol)) for symbol in symbols]
    if any(slope.free_symbols for _, slope in slopes):
        raise _unwritable(operation)
    constant = math.pi * float(exponent.subs(dict.fromkeys(symbols, 0)))
    return Angle(constant, tuple((name, float(slope)) for name, slope in slopes))


def _unwritable(operation: cirq.Operation, reason: str = "") -> ConfigError:
    free = " while its parameters are free; those of a trained model are numbers"
    return ConfigError(
        f"export: an operation has no form in the gates of OpenQASM{free if cirq.is_parameterized(operation) else ''}"
        f"{reason}. Given: {one_line(operation)}"
    )
