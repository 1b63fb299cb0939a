"""Programs in the format of the kernels, see `program.inc`."""

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from qcnn.simulators.kernels.program import TILE_QUBITS, Observable, Product, Program, Tile, flip
from qcnn.simulators.structure.gate_fusion import MAX_QUBITS, Block
from qcnn.simulators.structure.gates import Gate


class _Kind(enum.IntEnum):
    """`kind` of an operation."""

    LEAF = 0
    PRODUCT = 1
    GATE = 2
    FLIP = 3
    TILE = 4
    DENSITY = 5
    Z = 6


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedProgram:
    """Encoded program.

    Attributes:
        integers: Header, structures and table.
        constants: Phases and projectors of the gates, and their exponents.
        rows: Amplitudes of a bundle, including density matrices.
        readouts: Number of readouts.
        parameters: Number of circuit parameters.
    """

    integers: npt.NDArray[np.int32]
    constants: npt.NDArray[np.float64]
    rows: int
    readouts: int
    parameters: int


def encode(program: Program, parameters: int) -> EncodedProgram:
    """Encode a program.

    Args:
        program: Program to encode.
        parameters: Number of circuit parameters.
    """
    return _Encoder(program).encode(parameters)


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
        self._table: list[int] = []
        self._constants: list[float] = []
        self._numbers = self._places = 0

    def encode(self, parameters: int) -> EncodedProgram:
        program = self._program
        rows = program.amplitudes
        for number, register in enumerate(program.registers[: program.leaves]):
            self._add(_Kind.LEAF, number, value=register.row)
        for operation in program.operations:
            if isinstance(operation, Product):
                self._add(_Kind.PRODUCT, operation.target, operation.high, operation.low)
            else:
                self._add_tile(operation)
        self._add_plain(program.split.plain)
        observables: list[list[int]] = []
        for qubits, group in program.split.densities.items():
            target = self._register_of(qubits)
            bits = self._bits(program.registers[target].qubits, qubits)
            self._add(_Kind.DENSITY, target, len(group), len(observables), len(bits), bits, rows)
            rows += 4 ** len(qubits)
            observables += [self._observable(each) for each in group]
        largest = max(len(register.qubits) for register in program.registers)
        # Vectors for probabilities, or for a tile and its adjoint.
        scratch = max(2**largest + 2, 4 * 2 ** max(TILE_QUBITS, MAX_QUBITS))
        readouts = len(program.split.observables)
        leaf_rows = sum(2 ** len(register.qubits) for register in program.registers[: program.leaves])
        header = [
            len(program.registers),
            len(self._operations),
            len(self._block_entries),
            len(observables),
            len(self._factors),
            len(self._gate_entries),
            parameters,
            readouts,
            rows,
            leaf_rows,
            scratch,
            self._numbers,
        ]
        registers = [[register.row, len(register.qubits)] for register in program.registers]
        entries = (registers, self._operations, self._block_entries, observables, self._factors, self._gate_entries)
        flat = [number for kind in entries for entry in kind for number in entry]
        integers = np.array([*header, *flat, *self._table], np.int32)
        return EncodedProgram(integers, np.array(self._constants or [0.0]), rows, readouts, parameters)

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

    def _add_tile(self, tile: Tile) -> None:
        bits = self._bits(self._program.registers[tile.target].qubits, tile.qubits)
        self._add(_Kind.TILE, tile.target, len(tile.blocks), count=len(bits), value=len(self._table))
        self._table += bits
        for block in tile.blocks:
            if pair := flip(block):
                self._add(_Kind.FLIP, tile.target, count=len(pair), bits=self._bits(tile.qubits, pair))
            else:
                bits = self._bits(tile.qubits, block.qubits)
                self._add(_Kind.GATE, tile.target, count=len(bits), bits=bits, value=self._block(block))

    def _add_plain(self, observables: Iterable[Observable]) -> None:
        of_registers: dict[int, dict[int, int]] = {}
        for each in observables:
            of_registers.setdefault(self._register_of(each.qubits), {})[each.target] = each.readout
        for register, readouts in of_registers.items():
            self._add(_Kind.Z, register, value=len(self._table))
            self._table += [readouts.get(qubit, -1) for qubit in reversed(self._program.registers[register].qubits)]

    def _observable(self, each: Observable) -> list[int]:
        factors = [self._factor(self._block(block), each.qubits, block.qubits) for block in each.blocks]
        bit = self._bits(each.qubits, [each.target])[0]
        key = (len(each.qubits), bit, *map(tuple, factors))
        if key not in self._transformed:
            start = self._take_numbers(2 * 4 ** len(each.qubits))
            self._transformed[key] = [len(each.qubits), self._add_factors(factors), len(factors), start]
        return [*self._transformed[key], each.readout, bit]

    def _block(self, block: Block) -> int:
        if block.key not in self._blocks:
            factors = [self._factor(self._gate(gate), block.qubits, gate.qubits) for gate in block.gates]
            start = self._take_numbers(4 ** len(block.qubits))
            self._blocks[block.key] = len(self._block_entries)
            self._block_entries.append([len(block.qubits), self._add_factors(factors), len(factors), start])
        return self._blocks[block.key]

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

    def _register_of(self, qubits: Iterable[int]) -> int:
        """Return the last register of some qubits."""
        wanted = set(qubits)
        return max(n for n, register in enumerate(self._program.registers) if wanted.issubset(register.qubits))

    @staticmethod
    def _bits(inside: Sequence[int], qubits: Iterable[int]) -> list[int]:
        """Return the bits of qubits, counted from the least significant."""
        places: Mapping[int, int] = {qubit: len(inside) - 1 - at for at, qubit in enumerate(inside)}
        return [places[qubit] for qubit in qubits]


def _padded(bits: Sequence[int]) -> list[int]:
    return [*bits, *[0] * (MAX_QUBITS - len(bits))]
