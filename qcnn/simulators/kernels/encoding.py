"""Programs in the format of the kernels, see `program.inc`."""

import dataclasses
import enum
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from qcnn.simulators.kernels.lanes import exchanged
from qcnn.simulators.kernels.program import (
    Density,
    Exchange,
    Mix,
    Observable,
    Operation,
    PlainZ,
    Product,
    Program,
    Spread,
    Tile,
    ZProducts,
    flip,
    phases_of,
)
from qcnn.simulators.structure.gate_fusion import MAX_QUBITS, Block
from qcnn.simulators.structure.network import Gate

# Rows of the input of a graph state: cosine and sine of half the angle over the norm, and the rotated qubit.
GRAPH_ROWS = 2


class _Kind(enum.IntEnum):
    """`kind` of an operation."""

    LEAF = 0
    GRAPH = 1
    MIX = 2
    SPREAD = 3
    PRODUCT = 4
    EXCHANGE = 5
    GATE = 6
    FLIP = 7
    TILE = 8
    DENSITY = 9
    Z = 10
    Z_PRODUCTS = 11
    INPUT = 12


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedProgram:
    """Encoded program.

    Attributes:
        integers: Header, structures and table.
        constants: Phases and projectors of the gates, and their exponents.
        rows: Rows of a bundle, including density matrices.
        operations: Number of operations on a bundle.
        readouts: Number of readouts.
        norms: Whether the squared norms of the states of the readouts follow the readouts.
        parameters: Number of circuit parameters.
    """

    integers: npt.NDArray[np.int32]
    constants: npt.NDArray[np.float64]
    rows: int
    operations: int
    readouts: int
    norms: bool
    parameters: int

    @property
    def values(self) -> int:
        """Number of values of a sample: readouts and norms."""
        return 2 * self.readouts if self.norms else self.readouts


def encode(program: Program, parameters: int, *, norms: bool) -> EncodedProgram:
    """Encode a program.

    Args:
        program: Program to encode.
        parameters: Number of circuit parameters.
        norms: Whether the values of a sample include the squared norms of the states of its readouts.
    """
    return _Encoder(program).encode(parameters, norms)


class _Encoder:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._operations: list[list[int]] = []
        self._blocks: dict[tuple[object, ...], int] = {}
        self._block_entries: list[list[int]] = []
        self._factors: list[list[int]] = []
        self._transformed: dict[tuple[object, ...], list[int]] = {}
        self._gates: dict[tuple[object, ...], int] = {}
        self._gate_entries: list[list[int]] = []
        self._input_blocks: dict[tuple[object, ...], int] = {}
        self._input_block_entries: list[list[int]] = []
        self._input_gates: dict[tuple[object, ...], int] = {}
        self._input_gate_entries: list[list[int]] = []
        # Row of each phase, after those of the leaves.
        first = sum(2 ** len(register.qubits) for register in program.registers[: program.leaves])
        self._phase_rows = {phase: first + number for number, phase in enumerate(program.phases)}
        self._input_numbers = 0
        self._table: list[int] = []
        self._constants: list[float] = []
        self._observables: list[list[int]] = []
        self._numbers = self._places = 0
        # Next row, and the current qubits of the rows and lanes of each register.
        self._row = program.rows
        self._rows = [register.qubits for register in program.registers]
        self._lanes = [register.lanes for register in program.registers]

    def encode(self, parameters: int, norms: bool) -> EncodedProgram:
        program = self._program
        for number, register in enumerate(program.registers[: program.leaves]):
            kind = _Kind.GRAPH if program.graph else _Kind.LEAF
            value = GRAPH_ROWS * number if program.graph else register.row
            self._add(kind, number, count=len(register.lanes), value=value)
        for operation in program.operations:
            self._add_operation(operation)
        readouts = program.values
        # The number of the first norm, or 0 without norms.
        first_norm = readouts if norms else 0
        leaf_rows = sum(2 ** len(register.qubits) for register in program.registers[: program.leaves])
        header = [
            len(program.registers),
            len(self._operations),
            len(self._block_entries),
            len(self._observables),
            len(self._factors),
            len(self._gate_entries),
            parameters,
            readouts + first_norm,
            self._row,
            GRAPH_ROWS * program.leaves if program.graph else leaf_rows + len(self._phase_rows),
            program.scratch,
            self._numbers,
            first_norm,
            len(self._input_gate_entries),
            len(self._input_block_entries),
            self._input_numbers,
        ]
        registers = [[register.row, len(register.qubits)] for register in program.registers]
        entries = (
            registers,
            self._operations,
            self._block_entries,
            self._observables,
            self._factors,
            self._gate_entries,
            self._input_gate_entries,
            self._input_block_entries,
        )
        flat = [number for kind in entries for entry in kind for number in entry]
        integers = np.array([*header, *flat, *self._table], np.int32)
        constants = np.array(self._constants or [0.0])
        return EncodedProgram(
            integers=integers,
            constants=constants,
            rows=self._row,
            operations=len(self._operations),
            readouts=readouts,
            norms=norms,
            parameters=parameters,
        )

    def _add(
        self,
        kind: _Kind,
        target: int,
        high: int = 0,
        low: int = 0,
        count: int = 0,
        bits: Sequence[int] = (),
        value: int = 0,
    ) -> None:
        self._operations.append([kind, target, high, low, count, *_padded(bits), value])

    def _add_operation(self, operation: Operation) -> None:
        match operation:
            case Product():
                self._add(_Kind.PRODUCT, operation.target, operation.high, operation.low)
            case Mix():
                self._add_mix(operation)
            case Spread():
                self._add_spread(operation)
            case Exchange():
                self._add_exchange(operation)
            case Tile():
                self._add_tile(operation)
            case Density():
                self._add_density(operation)
            case PlainZ():
                self._add_plain(operation)
            case ZProducts():
                self._add_products(operation)

    def _add_mix(self, mix: Mix) -> None:
        if mix.unexcited is None:
            self._add(_Kind.MIX, mix.target, low=mix.source)
            return
        # The number of an amplitude in the register of the unexcited state, whose lanes are its lowest bits.
        whole = (*self._rows[mix.unexcited], *self._lanes[mix.unexcited])
        count, value = len(self._lanes[mix.unexcited]), len(self._table)
        self._add(_Kind.MIX, mix.target, mix.unexcited, mix.source, count, value=value)
        self._table += self._bits(whole, tuple(reversed(self._rows[mix.source])))

    def _add_spread(self, spread: Spread) -> None:
        bits = self._bits(self._rows[spread.source], self._lanes[spread.target])
        self._add(_Kind.SPREAD, spread.target, low=spread.source, count=len(bits), bits=bits)

    def _add_exchange(self, exchange: Exchange) -> None:
        rows, lanes = self._rows[exchange.target], self._lanes[exchange.target]
        bits = self._bits(rows, exchange.qubits)
        self._add(_Kind.EXCHANGE, exchange.target, count=len(bits), bits=bits)
        self._rows[exchange.target] = exchanged(rows, lanes, exchange.qubits)
        self._lanes[exchange.target] = exchange.qubits

    def _add_tile(self, tile: Tile) -> None:
        qubits = tuple(qubit for qubit in self._rows[tile.target] if qubit in tile.qubits)
        bits = self._bits(self._rows[tile.target], qubits)
        self._add(_Kind.TILE, tile.target, len(tile.blocks), count=len(bits), value=len(self._table))
        self._table += bits
        for block in tile.blocks:
            if pair := flip(block):
                self._add(_Kind.FLIP, tile.target, count=len(pair), bits=self._bits(qubits, pair))
            elif block.is_by_sample:
                bits = self._bits(qubits, block.qubits)
                self._add(_Kind.INPUT, tile.target, count=len(bits), bits=bits, value=self._input_block(block))
            else:
                bits = self._bits(qubits, block.qubits)
                self._add(_Kind.GATE, tile.target, count=len(bits), bits=bits, value=self._block(block))

    def _add_density(self, density: Density) -> None:
        group = self._program.split.densities[density.qubits]
        bits = self._bits(self._rows[density.target], density.qubits)
        self._add(_Kind.DENSITY, density.target, len(group), len(self._observables), len(bits), bits, self._row)
        self._row += 4 ** len(bits)
        self._observables += [self._observable(each, density.first) for each in group]

    def _add_plain(self, plain: PlainZ) -> None:
        measured = [each for each in self._program.split.plain if each.target in plain.qubits]
        readouts = {each.target: plain.first + each.readout for each in measured}
        self._add(_Kind.Z, plain.target, value=len(self._table))
        self._table += [readouts.get(qubit, -1) for qubit in reversed(self._rows[plain.target])]

    def _add_products(self, products: ZProducts) -> None:
        strings = [self._program.split.observables[number] for number in products.observables]
        self._add(_Kind.Z_PRODUCTS, products.target, count=len(strings), value=len(self._table))
        for each in strings:
            rows, lanes = (self._mask(every[products.target], each.qubits) for every in (self._rows, self._lanes))
            self._table += [rows, lanes, products.first + each.readout]

    def _observable(self, each: Observable, first: int) -> list[int]:
        factors = [self._factor(self._block(block), each.qubits, block.qubits) for block in each.blocks]
        bit = self._bits(each.qubits, [each.target])[0]
        key = (len(each.qubits), bit, *map(tuple, factors))
        if key not in self._transformed:
            start = self._take_numbers(2 * 4 ** len(each.qubits))
            self._transformed[key] = [len(each.qubits), self._add_factors(factors), len(factors), start]
        return [*self._transformed[key], first + each.readout, bit]

    def _block(self, block: Block) -> int:
        if block.key not in self._blocks:
            factors = [self._factor(self._gate(gate), block.qubits, gate.qubits) for gate in block.gates]
            start = self._take_numbers(4 ** len(block.qubits))
            self._blocks[block.key] = len(self._block_entries)
            self._block_entries.append([len(block.qubits), self._add_factors(factors), len(factors), start])
        return self._blocks[block.key]

    def _input_block(self, block: Block) -> int:
        if block.key not in self._input_blocks:
            factors = []
            for part in _parts(block):
                number = -1 - self._input_gate(part.gates[0]) if part.is_by_sample else self._block(part)
                factors.append(self._factor(number, block.qubits, part.gates[0].qubits if number < 0 else part.qubits))
            size = 4 ** len(block.qubits)
            place, self._input_numbers = self._input_numbers, self._input_numbers + size
            self._input_blocks[block.key] = len(self._input_block_entries)
            entry = [len(block.qubits), self._add_factors(factors), len(factors), self._take_numbers(size), place]
            self._input_block_entries.append(entry)
        return self._input_blocks[block.key]

    def _input_gate(self, gate: Gate) -> int:
        if gate.key not in self._input_gates:
            self._input_gates[gate.key] = len(self._input_gate_entries)
            entry = [len(gate.spectrum.phases), len(self._constants), len(self._table)]
            self._input_gate_entries.append(entry)
            for projector in gate.spectrum.projectors:
                self._constants += np.stack([projector.real, projector.imag], axis=-1).ravel().tolist()
            self._table += [self._phase_rows[phase] for phase in phases_of([gate])]
        return self._input_gates[gate.key]

    def _gate(self, gate: Gate) -> int:
        if gate.key not in self._gates:
            self._gates[gate.key] = len(self._gate_entries)
            start, size = len(self._constants), 4 ** len(gate.qubits)
            for phase, projector in zip(gate.spectrum.phases, gate.spectrum.projectors, strict=True):
                parts = np.stack([projector.real, projector.imag], axis=-1)
                self._constants += [float(phase), *parts.ravel().tolist()]
            exponent = gate.exponent
            entry = [len(gate.qubits), len(gate.spectrum.phases), start, len(self._constants)]
            self._gate_entries.append([*entry, len(exponent.coefficients), len(self._table), self._places])
            self._constants += [exponent.constant, *(coefficient for _, coefficient in exponent.coefficients)]
            self._table += [index for index, _ in exponent.coefficients]
            self._places += size
        return self._gates[gate.key]

    def _factor(self, number: int, inside: Sequence[int], qubits: Sequence[int]) -> list[int]:
        return [number, len(qubits), *_padded(self._bits(inside, qubits))]

    def _add_factors(self, factors: Sequence[list[int]]) -> int:
        first = len(self._factors)
        self._factors += factors
        return first

    def _take_numbers(self, count: int) -> int:
        start = self._numbers
        self._numbers += count
        return start

    @staticmethod
    def _mask(inside: Sequence[int], qubits: Collection[int]) -> int:
        """Return the number whose bits are set that are those of qubits."""
        return sum(1 << bit for bit, qubit in enumerate(reversed(inside)) if qubit in qubits)

    @staticmethod
    def _bits(inside: Sequence[int], qubits: Iterable[int]) -> list[int]:
        """Return the bits of qubits, counted from the least significant."""
        places: Mapping[int, int] = {qubit: len(inside) - 1 - at for at, qubit in enumerate(inside)}
        return [places[qubit] for qubit in qubits]


def _parts(block: Block) -> Iterator[Block]:
    """Yield the gates of a block that depend on inputs, one at a time, and blocks of those between them."""
    for is_by_sample, gates in itertools.groupby(block.gates, key=lambda gate: gate.is_by_sample):
        if is_by_sample:
            yield from (Block(tuple(sorted(gate.qubits)), (gate,)) for gate in gates)
        else:
            shared = tuple(gates)
            yield Block(tuple(sorted({qubit for gate in shared for qubit in gate.qubits})), shared)


def _padded(bits: Sequence[int]) -> list[int]:
    return [*bits, *[0] * (MAX_QUBITS - len(bits))]
