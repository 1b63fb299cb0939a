"""Trainable circuit with its parameters and readouts, on the first qubits of the ring."""

import collections
import dataclasses
from collections.abc import Iterable
from typing import TypeVar

import cirq
import sympy

from qcnn.errors import ConfigError, format_value

_Item = TypeVar("_Item")


@dataclasses.dataclass(frozen=True)
class Ansatz:
    """Trainable circuit, applied to the data state, and the qubits to read out in Z.

    A single readout is the prediction. Several readouts are the inputs of the dense layers.
    `qcnn.simulators.structure.gates` defines the supported gates.

    Attributes:
        circuit: Circuit with free symbols.
        symbols: Circuit parameters, in the order of the weights.
        readouts: Qubits to read out.

    Raises:
        ConfigError: If an argument has the wrong type, names of symbols or qubits are not unique, or there are no
            readouts.
    """

    circuit: cirq.Circuit
    symbols: tuple[sympy.Symbol, ...]
    readouts: tuple[cirq.Qid, ...]

    def __post_init__(self) -> None:
        """Convert the arguments to tuples and raise ConfigError if one is invalid."""
        if not isinstance(self.circuit, cirq.AbstractCircuit):
            raise ConfigError(f"model: circuit must be a cirq.Circuit. Given: {format_value(self.circuit)}")
        object.__setattr__(self, "circuit", self.circuit.unfreeze(copy=False))
        object.__setattr__(self, "symbols", _require_all(sympy.Symbol, "symbols must be of sympy.Symbol", self.symbols))
        object.__setattr__(self, "readouts", _require_all(cirq.Qid, "readouts must be qubits", self.readouts))
        names = collections.Counter(symbol.name for symbol in self.symbols)
        if twice := [name for name, count in names.items() if count > 1]:
            raise ConfigError(f"model: symbols must list each name once. Given: {', '.join(twice)} again")
        if not self.readouts:
            raise ConfigError("model: readouts must name at least one qubit. Given: none")
        if again := [qubit for qubit, count in collections.Counter(self.readouts).items() if count > 1]:
            raise ConfigError(f"model: readouts must name each qubit once. Given: {format_value(again[0])} again")


def ring(qubits: int) -> list[cirq.GridQubit]:
    """Return the qubits of the ring, in order."""
    return cirq.GridQubit.rect(1, qubits)


def _require_all(kind: type[_Item], what: str, values: object) -> tuple[_Item, ...]:
    """Return values as a tuple, or raise ConfigError if one has another type."""
    listed = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    for value in listed:
        if not isinstance(value, kind):
            raise ConfigError(f"model: {what}. Given: {format_value(value)}")
    return tuple(value for value in listed if isinstance(value, kind))


def decompose_once(operation: cirq.Operation) -> Iterable[cirq.Operation] | None:
    """Return one step of cirq's decomposition of an operation, or None if cirq has none.

    Gates are decomposed on a line of adjacent qubits. On other qubits, cirq 1.5 decomposes a `ThreeQubitDiagonalGate`
    differently and fails for a `MatrixGate`.
    """
    gate = operation.gate
    if gate is None:
        parts: Iterable[cirq.Operation] | None = cirq.decompose_once(operation, default=None)
        return parts
    line = cirq.LineQid.for_gate(gate)
    parts = cirq.decompose_once(gate.on(*line), default=None)
    if parts is None:
        return None
    places: dict[cirq.Qid, cirq.Qid] = dict(zip(line, operation.qubits, strict=True))
    return [part.transform_qubits(lambda qubit: places.get(qubit, qubit)) for part in parts]
