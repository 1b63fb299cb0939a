"""Convert Qiskit circuits to trainable circuits, with measurements in mid-circuit as controlled gates."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

import cirq
import sympy
from qiskit.circuit import CircuitInstruction, Clbit, IfElseOp, Instruction, Measure, QuantumCircuit, Reset

from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.deferred_measurements import Condition, DeferredMeasurements, conditioned
from qcnn.circuits.formats.qiskit_gates import MAX_OPERATIONS, CircuitSymbols, error_message, openqasm_name, operations
from qcnn.errors import ConfigError

# Limit of visited instructions, including those without operations. Visiting this number takes seconds.
_MAX_STEPS = 100_000


def to_ansatz(
    circuit: QuantumCircuit,
    parameters: Sequence[str],
    name: str,
    place: Callable[[int, str], str] = lambda *_: "",
    inputs: Sequence[str] = (),
) -> Ansatz:
    """Convert a Qiskit circuit to an ansatz on the first qubits of the ring.

    The readouts are the qubits with final measurements, in the order of the bits, or all qubits if there are none. A
    parameter, an angle in radians, becomes a symbol in units of pi. An input keeps its values.

    Args:
        circuit: Circuit to convert.
        parameters: Names of its parameters, in the order of the symbols.
        name: Name of the circuit, for error messages.
        place: Function of the number and the name of an instruction that returns the place in an error message.
        inputs: Names of parameters that are inputs of the circuit.

    Raises:
        ConfigError: If the circuit is not trainable.
    """
    if not circuit.num_qubits:
        raise ConfigError(f"model: the circuit must have qubits. Given: none in {name}")
    if unknown := [each for each in inputs if each not in parameters]:
        raise ConfigError(
            f"inputs: must be parameters of the circuit, {', '.join(parameters) or 'of which it has none'}. "
            f"Given: {unknown[0]} with {name}"
        )
    symbols = {each: sympy.Symbol(each) for each in parameters}
    reader = _InstructionReader(circuit, CircuitSymbols(symbols, frozenset(inputs)))
    for number, instruction in enumerate(circuit.data):
        try:
            reader.read(instruction)
        except ConfigError as error:
            where = place(number, openqasm_name(instruction.operation))
            raise ConfigError(f"model: {where}{str(error).removeprefix('model: ')} in {name}") from None
    weights = tuple(symbol for each, symbol in symbols.items() if each not in inputs)
    return Ansatz(cirq.Circuit(reader.converted), weights, reader.readouts, [symbols[each] for each in inputs])


def from_qiskit(circuit: QuantumCircuit, name: str, inputs: Sequence[str] = ()) -> Ansatz:
    """Convert a Qiskit circuit with its parameters in Qiskit's order. See `to_ansatz`.

    The metadata `parameters`, which `export.write` adds, has the names of the parameters in another order.

    Args:
        circuit: Circuit to convert.
        name: Name of the circuit, for error messages.
        inputs: Names of parameters that are inputs of the circuit.

    Raises:
        ConfigError: If the circuit is not trainable.
    """
    names = [parameter.name for parameter in circuit.parameters]
    ordered = (circuit.metadata or {}).get("parameters")
    if isinstance(ordered, list) and sorted(map(str, ordered)) == sorted(names):
        names = ordered
    with warnings.catch_warnings():
        # Qiskit emits deprecation warnings about its own code.
        warnings.simplefilter("ignore")
        return to_ansatz(circuit, names, name, inputs=inputs)


class _InstructionReader:
    """Converter of instructions to operations, which replaces measurements in mid-circuit."""

    def __init__(self, circuit: QuantumCircuit, symbols: CircuitSymbols) -> None:
        self.symbols = symbols
        self.converted: list[cirq.Operation] = []
        self._circuit = circuit
        self._at: list[cirq.Qid] = list(ring(circuit.num_qubits))
        self._conditioning = set(_conditioning_bits(circuit.data))
        # Qubits by bit: measured in mid-circuit, and at the end.
        self._in_mid_circuit: dict[Clbit, cirq.Qid] = {}
        self._measured: dict[cirq.Qid, Clbit] = {}
        self._deferred = DeferredMeasurements()
        self._steps = 0

    @property
    def readouts(self) -> list[cirq.Qid]:
        """Qubits measured at the end, in the order of the bits, or all that were not measured before."""
        order = {bit: number for number, bit in enumerate(self._circuit.clbits)}
        rest = [qubit for qubit in self._at if qubit not in self._deferred.qubits]
        readouts = sorted(self._measured, key=lambda qubit: order[self._measured[qubit]]) or rest
        self._deferred.check_readouts(readouts)
        return readouts

    def read(self, instruction: CircuitInstruction) -> None:
        """Convert an instruction of the circuit.

        Raises:
            ConfigError: If it is not supported. The message has no place.
        """
        qubits = [self._at[self._circuit.find_bit(qubit).index] for qubit in instruction.qubits]
        self._read(instruction.operation, qubits, list(instruction.clbits), ())

    def _read(
        self,
        operation: Instruction,
        qubits: list[cirq.Qid],
        bits: list[Clbit],
        conditions: tuple[Condition, ...],
    ) -> None:
        if operation.name == "barrier":
            return
        if isinstance(operation, IfElseOp):
            self._read_blocks(operation, qubits, bits, conditions)
            return
        if after := [qubit for qubit in qubits if qubit in self._measured]:
            raise ConfigError(
                "model: measurements must be at the end of the circuit, unless their bit conditions a gate. "
                f"Given: {openqasm_name(operation)} on qubit {self._at.index(after[0])} after its measurement"
            )
        if isinstance(operation, Measure | Reset) and conditions:
            raise ConfigError(f"model: a bit must condition a gate. Given: {openqasm_name(operation)}")
        if isinstance(operation, Measure):
            self._measure(qubits[0], bits[0])
        elif isinstance(operation, Reset):
            self._deferred.reset(qubits[0])
        else:
            for part in self._parts_of(operation, qubits):
                self.converted.append(self._deferred.use(conditioned(part, conditions) if conditions else part))

    def _measure(self, qubit: cirq.Qid, bit: Clbit) -> None:
        if bit in self._conditioning:
            self._deferred.measure(qubit)
            self._in_mid_circuit[bit] = qubit
            return
        if bit in self._measured.values():
            raise ConfigError("model: each bit must have at most one measurement. Given: two of one bit")
        self._measured[qubit] = bit

    def _read_blocks(
        self,
        branch: IfElseOp,
        qubits: list[cirq.Qid],
        bits: list[Clbit],
        conditions: tuple[Condition, ...],
    ) -> None:
        """Convert the instructions of a branch, each with its conditions."""
        wanted = _condition_of(branch)
        unknown = [bit for bit, _ in wanted if bit not in self._in_mid_circuit]
        if unknown or (len(wanted) > 1 and len(branch.blocks) > 1):
            reason = "be measured before it conditions a gate" if unknown else "be single where a branch has an else"
            raise ConfigError(f"model: a bit must {reason}. Given: if")
        own = [Condition(self._in_mid_circuit[bit], value) for bit, value in wanted]
        for number, block in enumerate(branch.blocks):
            added = own if not number else [Condition(each.qubit, 1 - each.outcome) for each in own]
            at, outer = dict(zip(block.qubits, qubits, strict=True)), dict(zip(block.clbits, bits, strict=True))
            for inner in block.data:
                places, inner_bits = [at[qubit] for qubit in inner.qubits], [outer[bit] for bit in inner.clbits]
                self._read(inner.operation, places, inner_bits, (*conditions, *added))

    def _parts_of(self, operation: Instruction, qubits: list[cirq.Qid]) -> Iterator[cirq.Operation]:
        try:
            for part in operations(operation, qubits, self.symbols):
                # Instructions without operations take time, too.
                self._steps += 1
                if len(self.converted) >= MAX_OPERATIONS or self._steps > _MAX_STEPS:
                    raise ConfigError(f"model: must have at most {MAX_OPERATIONS} gates. Given: more")
                if part:
                    yield part
        except ConfigError:
            raise
        except Exception as error:  # Qiskit raises errors of many types when it evaluates a definition's arguments.
            raise ConfigError(
                f"model: a gate definition must compute numbers from its arguments ({error_message(error)}). "
                f"Given: {openqasm_name(operation)}"
            ) from None


def _conditioning_bits(data: Iterable[CircuitInstruction]) -> Iterator[Clbit]:
    """Yield the bits that condition a gate."""
    for instruction in data:
        if isinstance(instruction.operation, IfElseOp):
            yield from (bit for bit, _ in _condition_of(instruction.operation))
            for block in instruction.operation.blocks:
                # Bits of a block are those of the circuit, in the order of the instruction.
                outer = dict(zip(block.clbits, instruction.clbits, strict=True))
                yield from (outer[bit] for bit in _conditioning_bits(block.data))


def _condition_of(branch: IfElseOp) -> list[tuple[Clbit, int]]:
    """Return the bits of a condition with the values for which it is true."""
    target, value = branch.condition
    if isinstance(target, Clbit):
        return [(target, int(value))]
    return [(bit, int(value) >> place & 1) for place, bit in enumerate(target)]
