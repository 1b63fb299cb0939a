"""Trainable circuit with its parameters and readouts, on the first qubits of the ring."""

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import cirq
import sympy

from qcnn.circuits.deferred_measurements import has_measurements, without_measurements
from qcnn.circuits.observables import Readout, as_readout, qubits_of
from qcnn.errors import ConfigError, format_value
from qcnn.process.extras import translate_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Item = TypeVar("_Item")
# Readout as a user gives it.
ReadoutArgument: TypeAlias = Readout | cirq.PauliString[cirq.Qid] | cirq.PauliSum | list[cirq.PauliString[cirq.Qid]]


@dataclasses.dataclass(frozen=True, init=False)
class Ansatz:
    """Trainable circuit, applied to the data state, and its readouts.

    A single readout is the prediction. Several readouts are the inputs of the dense layers.
    `qcnn.simulators.structure.gates` defines the supported gates.

    Attributes:
        circuit: Circuit with free symbols. Measurements in mid-circuit, whose bits condition gates, are replaced by
            controlled gates.
        symbols: Circuit parameters, in the order of the weights.
        readouts: Qubits to read out in Z, or cirq.PauliString or cirq.PauliSum with real coefficients, which are stored
            as tuples of strings.
        inputs: Symbols of the circuit that are features of a sample instead of parameters, in the order of the columns
            of the data. The circuit then acts on |0...0>.

    Raises:
        ConfigError: If an argument has the wrong type, names of symbols, inputs or readouts are not unique, there are
            no readouts, or a measured qubit is used otherwise than as a control and in Z.

    >>> qubits = cirq.GridQubit.rect(1, 2)
    >>> s = sympy.Symbol("s")
    >>> Ansatz(cirq.Circuit(cirq.ISWAP(*qubits) ** s), [s], [cirq.Z(qubits[0]) * cirq.Z(qubits[1])]).symbols
    (s,)
    """

    circuit: cirq.Circuit
    symbols: tuple[sympy.Symbol, ...]
    readouts: tuple[Readout, ...]
    inputs: tuple[sympy.Symbol, ...] = ()

    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        symbols: Iterable[sympy.Symbol] | sympy.Symbol,
        readouts: "Iterable[ReadoutArgument] | ReadoutArgument",
        inputs: Iterable[sympy.Symbol] | sympy.Symbol = (),
    ) -> None:
        if not isinstance(circuit, cirq.AbstractCircuit):
            raise ConfigError(f"model: circuit must be a cirq.Circuit. Given: {format_value(circuit)}")
        object.__setattr__(self, "circuit", circuit.unfreeze(copy=False))
        object.__setattr__(self, "symbols", _require_all(sympy.Symbol, "symbols must be of sympy.Symbol", symbols))
        object.__setattr__(self, "readouts", tuple(map(as_readout, _listed(readouts))))
        object.__setattr__(self, "inputs", _require_all(sympy.Symbol, "inputs must be of sympy.Symbol", inputs))
        if has_measurements(self.circuit):
            object.__setattr__(self, "circuit", without_measurements(self.circuit, self.readouts))
        names = collections.Counter(symbol.name for symbol in (*self.symbols, *self.inputs))
        if twice := [name for name, count in names.items() if count > 1]:
            listed = "symbols and inputs" if self.inputs else "symbols"
            raise ConfigError(f"model: {listed} must list each name once. Given: {', '.join(twice)} again")
        if not self.readouts:
            raise ConfigError("model: readouts must name at least one qubit. Given: none")
        if again := [readout for readout, count in collections.Counter(self.readouts).items() if count > 1]:
            raise ConfigError(f"model: readouts must be different. Given: {format_value(again[0])} again")

    @property
    def qubits(self) -> frozenset[cirq.Qid]:
        """Qubits of the circuit and of the readouts."""
        return self.circuit.all_qubits().union(*map(qubits_of, self.readouts))

    def with_inputs(self, names: Sequence[str]) -> "Ansatz":
        """Return the ansatz with some of its symbols as inputs.

        Args:
            names: Names of symbols, in the order of the columns of the data.

        Raises:
            ConfigError: If the ansatz has other inputs, or no symbol of a name.
        """
        own = [symbol.name for symbol in self.inputs]
        if own and own != list(names):
            raise ConfigError(f"inputs: must be those of the circuit, {','.join(own)}. Given: {','.join(names)}")
        if own:
            return self
        by_name = {symbol.name: symbol for symbol in self.symbols}
        if unknown := [name for name in names if name not in by_name]:
            raise ConfigError(
                f"inputs: must be free parameters of the circuit, {', '.join(by_name) or 'of which it has none'}. "
                f"Given: {format_value(unknown[0])}"
            )
        others = tuple(symbol for symbol in self.symbols if symbol.name not in names)
        return dataclasses.replace(self, symbols=others, inputs=tuple(by_name[name] for name in names))

    @translate_errors("Ansatz.plot", "run")
    def plot(self) -> "Figure":
        """Return a diagram of the circuit as a matplotlib figure, as `qcnn circuit --image` saves it.

        Of more than 16 qubits, those are drawn that the first readout depends on. The figure ends after 64 columns.
        """
        # Matplotlib takes a second to import.
        from qcnn.circuits import drawing

        return drawing.draw(self).figure


def ring(qubits: int) -> list[cirq.GridQubit]:
    """Return the qubits of the ring, in order."""
    return cirq.GridQubit.rect(1, qubits)


def _require_all(kind: type[_Item], what: str, values: object) -> tuple[_Item, ...]:
    """Return values as a tuple, or raise ConfigError if one has another type."""
    for value in _listed(values):
        if not isinstance(value, kind):
            raise ConfigError(f"model: {what}. Given: {format_value(value)}")
    return tuple(value for value in _listed(values) if isinstance(value, kind))


def _listed(values: object) -> list[object]:
    """Return values as a list, also a single value. Pauli strings and sums are iterable, but single values."""
    if not isinstance(values, Iterable) or isinstance(values, str | cirq.PauliString | cirq.PauliSum):
        return [values]
    return list(values)


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
