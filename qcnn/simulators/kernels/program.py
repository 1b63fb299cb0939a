"""Program of the kernels: registers that grow, gates on them in tiles, and observables at the end.

A product state is evolved as separate registers until a gate joins two of them. The last gates before the readouts
are not applied to the states: the observables are transformed instead, once for all samples (Heisenberg picture).
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from qcnn.simulators.structure.gate_fusion import MAX_QUBITS, Block, fuse
from qcnn.simulators.structure.measurement_gates import basis_gates, inverse_of, measurement_gates, target_of
from qcnn.simulators.structure.network import CircuitIR, Gate, GateSpectrum, LinearExponent
from qcnn.simulators.structure.pauli_strings import PauliString

# Maximum number of qubits of a tile: its amplitudes and their adjoint stay in the first-level cache.
TILE_QUBITS = 8
# Rows times operations of a call below which starting a thread takes longer than it saves.
MIN_THREAD_WORK = 40_000
# Passes of a step over the amplitudes: forward, backward for the state and its adjoint, and the gradient.
_PASSES = 4
# Relative time of a step that evolves the states again for the gradient.
RECOMPUTATION = (_PASSES + 1) / _PASSES
# Operations per amplitude and step, in units of a real multiplication or addition: CNOT, expectation
# values of Z, and a density matrix per row.
_FLIP, _Z, _DENSITY_ROW = 24.0, 16.0, 24.0
# The same for products of Z, for each bit of an amplitude's number.
_STRING_BIT = 4.0
# Operations per sample and step of an element of an observable: its value and gradient.
_OBSERVABLE_ELEMENT = 160.0
_CNOT = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])


def flip(block: Block) -> tuple[int, int] | None:
    """Return control and target of a block that is a CNOT gate at all parameters, or None."""
    return _control_and_target(block.gates[0]) if len(block.gates) == 1 else None


def _control_and_target(gate: Gate) -> tuple[int, int] | None:
    if len(gate.qubits) != len(_CNOT) // 2 or gate.exponent.parameters or gate.is_by_sample:
        return None
    control = _control(gate.spectrum, gate.exponent.constant)
    return None if control is None else (gate.qubits[control], gate.qubits[1 - control])


# Circuits have few gates without parameters, on many qubits.
@functools.lru_cache(maxsize=64)
def _control(spectrum: GateSpectrum, exponent: float) -> int | None:
    """Return the position of the control if a gate on two qubits is a CNOT gate, else None."""
    phases = np.exp(1j * np.pi * spectrum.phases * exponent)
    matrix = np.einsum("k,kij->ij", phases, spectrum.projectors)
    for control, axes in ((0, (0, 1, 2, 3)), (1, (1, 0, 3, 2))):
        moved = matrix.reshape(2, 2, 2, 2).transpose(axes).reshape(4, 4)
        # A global phase changes no expectation value.
        if abs(moved[0, 0]) > 0.5 and np.allclose(moved / moved[0, 0], _CNOT, rtol=0, atol=1e-12):
            return control
    return None


def block_operations(block: Block) -> float:
    """Return the arithmetic operations of a block per amplitude and step."""
    return _FLIP if flip(block) else _PASSES * 8 * 2.0 ** len(block.qubits)


@dataclasses.dataclass(frozen=True)
class Observable:
    """Observable of a Pauli string: Z on a qubit, transformed by the gates that the states do not pass.

    Without such gates it is the product of Z on its qubits, or a string on more qubits than a gate can have.

    Attributes:
        readout: Position of the string among those of the network.
        string: Pauli string.
        qubits: Ascending qubits on which the observable acts.
        blocks: Gates that transform Z, in the order in which they act.
    """

    readout: int
    string: PauliString
    qubits: tuple[int, ...]
    blocks: tuple[Block, ...]

    @property
    def target(self) -> int:
        """Qubit of the Z that the gates transform."""
        return target_of(self.string)


@dataclasses.dataclass(frozen=True)
class Split:
    """Split of a circuit into gates on the states and observables.

    Attributes:
        blocks: Gates that the states pass, in the order in which they act.
        observables: Observables in the order of the network's strings.
    """

    blocks: tuple[Block, ...]
    observables: tuple[Observable, ...]

    @property
    def densities(self) -> dict[tuple[int, ...], list[Observable]]:
        """Observables by their qubits, whose density matrix they need. Plain Z needs none."""
        every: dict[tuple[int, ...], list[Observable]] = {}
        for each in self.observables:
            if each.blocks:
                every.setdefault(each.qubits, []).append(each)
        return every

    @property
    def plain(self) -> list[Observable]:
        """Observables that are Z on one qubit."""
        return [each for each in self.observables if not each.blocks and each.string.is_single_z]

    @property
    def products(self) -> list[Observable]:
        """Other observables without a transformation."""
        return [each for each in self.observables if not each.blocks and not each.string.is_single_z]

    def operations(self, amplitudes: float) -> float:
        """Return the arithmetic operations per sample and step, if all gates act on one register.

        Args:
            amplitudes: Amplitudes of the register.
        """
        return amplitudes * sum(map(block_operations, self.blocks)) + self.measurement(amplitudes)

    def measurement(self, amplitudes: float) -> float:
        """Return the arithmetic operations of the observables per sample and step.

        Args:
            amplitudes: Amplitudes of the register that has the readouts.
        """
        of_row = sum(_DENSITY_ROW * 2.0 ** len(qubits) for qubits in self.densities) + (_Z if self.plain else 0)
        of_row += 2 * _STRING_BIT * math.log2(amplitudes) * len(commuting(self.products))
        small = [each for each in self.observables if each.blocks or each.string.is_single_z]
        return of_row * amplitudes + sum(_OBSERVABLE_ELEMENT * 4.0 ** len(each.qubits) for each in small)


def commuting(observables: Iterable[Observable]) -> list[list[Observable]]:
    """Return observables in groups that can be measured together: no qubit of a group has two different operators."""
    groups: list[tuple[dict[int, str], list[Observable]]] = []
    for each in observables:
        own = dict(zip(each.string.qubits, each.string.axes, strict=True))
        for axes, group in groups:
            if all(axes.get(qubit, axis) == axis for qubit, axis in own.items()):
                axes.update(own)
                group.append(each)
                break
        else:
            groups.append((own, [each]))
    return [group for _, group in groups]


def cheapest_split(network: CircuitIR) -> Split:
    """Return the split of a circuit with the fewest operations."""
    blocks = fuse(network.gates, separate=lambda gate: _control_and_target(gate) is not None)
    every = [_split(blocks, network.strings, width) for width in range(MAX_QUBITS + 1)]
    return min(every, key=lambda split: split.operations(2.0**network.qubits))


def _split(blocks: Sequence[Block], strings: Sequence[PauliString], width: int) -> Split:
    """Return the split whose observables act on at most `width` qubits, without gates that no readout depends on.

    A string with X or Y has a transformation if it fits in a gate, whatever the width.
    """
    supports = [set(string.qubits) for string in strings]
    absorbed: list[list[Block]] = [[] for _ in strings]
    for number, string in enumerate(strings):
        if not string.is_diagonal and len(string.qubits) <= MAX_QUBITS:
            absorbed[number] += reversed(fuse(measurement_gates(string)))
    # Qubits of later gates that act on the states.
    later: set[int] = set()
    kept: list[Block] = []
    for block in reversed(blocks):
        qubits = set(block.qubits)
        if not (later & qubits or block.is_by_sample):
            reached = [number for number, support in enumerate(supports) if support & qubits]
            if all(len(supports[number] | qubits) <= width for number in reached):
                for number in reached:
                    string = strings[number]
                    if not absorbed[number] and not string.is_single_z:
                        absorbed[number] += reversed(fuse(measurement_gates(string)))
                    supports[number] |= qubits
                    absorbed[number].append(block)
                continue
        later |= qubits
        kept.append(block)
    observables = [
        Observable(number, string, tuple(sorted(support)), tuple(reversed(inside)))
        for number, (string, support, inside) in enumerate(zip(strings, supports, absorbed, strict=True))
    ]
    return Split(tuple(reversed(kept)), tuple(observables))


@dataclasses.dataclass(frozen=True)
class Register:
    """Qubits that are evolved together.

    Attributes:
        qubits: Qubits of the row number, most significant first.
        row: First row among those of all registers.
        lanes: Qubits of the lane number, most significant first, if a vector holds amplitudes of one state.
    """

    qubits: tuple[int, ...]
    row: int
    lanes: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Product:
    """Product of the states of two registers, by number, as a new register."""

    target: int
    high: int
    low: int


@dataclasses.dataclass(frozen=True)
class Tile:
    """Gates on few qubits of a register, which are applied together for each value of the other qubits.

    Attributes:
        target: Number of the register.
        qubits: Qubits of the tile, in the order of the register.
        blocks: Gates in the order in which they act.
    """

    target: int
    qubits: tuple[int, ...]
    blocks: tuple[Block, ...]


class BasisChange(Tile):
    """Gates around a measurement in another basis, which are repeated with it."""


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Values of observables.

    Attributes:
        target: Number of the register.
        qubits: Qubits of the observables.
        first: Number of the value of the first readout.
    """

    target: int
    qubits: tuple[int, ...]
    first: int = 0


class Density(Measurement):
    """Observables on the same qubits of a register, which need their density matrix."""


class PlainZ(Measurement):
    """Observables Z on qubits of a register."""


@dataclasses.dataclass(frozen=True)
class ZProducts(Measurement):
    """Observables that are products of Z on qubits of a register, by their positions in the split."""

    observables: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Mix:
    """Superposition of the unexcited state and that of each lane, as a new register, see `spanning`.

    Attributes:
        target: Number of the new register.
        source: Number of the register of each lane.
        unexcited: Number of the register of the unexcited state, whose lanes hold qubits, or None for lane 0.
    """

    target: int
    source: int
    unexcited: int | None = None


@dataclasses.dataclass(frozen=True)
class Spread:
    """Copy of a register whose lanes hold the same state, as a new register whose lanes hold qubits."""

    target: int
    source: int


@dataclasses.dataclass(frozen=True)
class Exchange:
    """Exchange of the qubits of the lanes of a register with other qubits."""

    target: int
    qubits: tuple[int, ...]


Operation: TypeAlias = Product | Tile | Density | PlainZ | ZProducts | Mix | Spread | Exchange


class InputPhase(NamedTuple):
    """Phase pi x frequency x exponent, for an exponent that depends on inputs."""

    exponent: LinearExponent
    frequency: float


def phases_of(gates: Iterable[Gate]) -> list[InputPhase]:
    """Return the phases of gates that depend on inputs, for each relative to that of the gate's first component."""
    return [
        InputPhase(gate.exponent, float(phase - gate.spectrum.phases[0]))
        for gate in gates
        if gate.is_by_sample
        for phase in gate.spectrum.phases[1:]
    ]


@dataclasses.dataclass(frozen=True)
class Program:
    """Program of a network.

    Attributes:
        leaves: Number of registers that the input states fill.
        graph: Whether the kernels compute the input states, which are graph states with a rotated qubit.
        registers: Registers by number. The first are the leaves.
        operations: Operations in the order in which they act.
        split: Gates and observables of the network.
    """

    leaves: int
    graph: bool
    registers: tuple[Register, ...]
    operations: tuple[Operation, ...]
    split: Split

    @property
    def rows(self) -> int:
        """Number of rows of all registers."""
        return sum(2 ** len(register.qubits) for register in self.registers)

    @property
    def values(self) -> int:
        """Number of values of a sample: its readouts, and those of the mixture and the unexcited state."""
        first = max((each.first for each in self.operations if isinstance(each, Measurement)), default=0)
        return first + len(self.split.observables)

    @property
    def phases(self) -> tuple[InputPhase, ...]:
        """Distinct phases of gates that depend on inputs, in the order of their rows after those of the leaves."""
        return tuple(dict.fromkeys(phase for block in self.split.blocks for phase in phases_of(block.gates)))

    @property
    def scratch(self) -> int:
        """Number of vectors for the probabilities of observables without a transformation."""
        plain = [each.target for each in self.operations if isinstance(each, PlainZ | ZProducts)]
        return max((2 ** len(self.registers[target].qubits) + 2 for target in plain), default=0)


# A network is planned, estimated and simulated with the same program.
@functools.lru_cache(maxsize=8)
def build(network: CircuitIR) -> Program:
    """Return the program of a network.

    Its inputs are a state of each qubit if the data states are product states, and else a state of all qubits.
    """
    split = cheapest_split(network)
    product = network.preparation.kind not in ("excitation", "state")
    leaves = [(qubit,) for qubit in range(network.qubits)] if product else [tuple(range(network.qubits))]
    builder = _ProgramBuilder(leaves)
    waiting = list(split.blocks)
    while waiting:
        # The next gate that leads to the smallest register. Later gates on that register share its tiles.
        ready = [waiting[number] for number in sorted(_Frontier(waiting).free)]
        register = builder.join(min(ready, key=lambda block: builder.joined_size(block.qubits)).qubits)
        waiting = builder.add_tiles(register, waiting)
    builder.measure(split)
    graph = network.preparation.kind == "excitation"
    return Program(len(leaves), graph, tuple(builder.registers), tuple(builder.operations), split)


class _Frontier:
    """Blocks that can act next, because all earlier blocks on their qubits were taken.

    Attributes:
        free: Numbers of these blocks.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        # Numbers of the remaining blocks on each qubit, the next one last.
        self._waiting: dict[int, list[int]] = {}
        for number in reversed(range(len(blocks))):
            for qubit in blocks[number].qubits:
                self._waiting.setdefault(qubit, []).append(number)
        self.free = {numbers[-1] for numbers in self._waiting.values() if self._is_free(numbers[-1])}

    def take(self, number: int) -> Block:
        """Remove a free block, and return it."""
        block = self._blocks[number]
        self.free.remove(number)
        for qubit in block.qubits:
            numbers = self._waiting[qubit]
            numbers.pop()
            if numbers and self._is_free(numbers[-1]):
                self.free.add(numbers[-1])
        return block

    def _is_free(self, number: int) -> bool:
        return all(self._waiting[qubit][-1:] == [number] for qubit in self._blocks[number].qubits)


class _ProgramBuilder:
    def __init__(self, leaves: Sequence[tuple[int, ...]]) -> None:
        self.registers: list[Register] = []
        self.operations: list[Operation] = []
        self._register_of: dict[int, int] = {}
        self._rows = 0
        for qubits in leaves:
            self._add_register(qubits)

    def joined_size(self, qubits: Iterable[int]) -> int:
        """Return the number of qubits of the register after a gate on some qubits."""
        return sum(len(self.registers[register].qubits) for register in {self._register_of[each] for each in qubits})

    def join(self, qubits: Iterable[int]) -> int:
        """Return the register of some qubits, after the product of all registers that have one of them."""
        first, *others = sorted(
            {self._register_of[qubit] for qubit in qubits}, key=lambda register: min(self.registers[register].qubits)
        )
        for other in others:
            joined = self._add_register((*self.registers[first].qubits, *self.registers[other].qubits))
            self.operations.append(Product(joined, first, other))
            first = joined
        return first

    def add_tiles(self, register: int, waiting: Sequence[Block], kind: type[Tile] = Tile) -> list[Block]:
        """Add tiles with the gates that act on a register before gates on other qubits, and return the other gates."""
        own = self.registers[register].qubits
        inside, rest = reached_blocks(waiting, set(own))
        for blocks in _fewest_tiles(inside):
            used = {qubit for block in blocks for qubit in block.qubits}
            # A tile on all qubits needs no copy.
            qubits = tuple(qubit for qubit in own if len(own) <= TILE_QUBITS or qubit in used)
            self.operations.append(kind(register, qubits, tuple(blocks)))
        return rest

    def measure(self, split: Split) -> None:
        """Add the observables."""
        plain: dict[int, list[int]] = {}
        densities = [Density(self.join(qubits), qubits) for qubits in split.densities]
        for each in split.products:
            self.join(each.qubits)
        for each in split.plain:
            plain.setdefault(self._register_of[each.target], []).append(each.target)
        self.operations += [PlainZ(target, tuple(qubits)) for target, qubits in plain.items()]
        # A later product contains the qubits of an earlier density matrix.
        self.operations += [dataclasses.replace(each, target=self.join(each.qubits)) for each in densities]
        for group in commuting(split.products):
            self._measure_products(group)

    def _measure_products(self, group: Sequence[Observable]) -> None:
        """Add products of Z, after changes of the basis of single qubits, which are undone."""
        by_register: dict[int, list[Observable]] = {}
        for each in group:
            by_register.setdefault(self._register_of[each.qubits[0]], []).append(each)
        for register, members in by_register.items():
            axes = {qubit: axis for each in members for qubit, axis in zip(*each.string, strict=True)}
            changed = [qubit for qubit, axis in sorted(axes.items()) if axis != "Z"]
            change = basis_gates(PauliString(tuple(changed), "".join(axes[qubit] for qubit in changed)))
            self.add_tiles(register, fuse(change), BasisChange)
            numbers = tuple(each.readout for each in members)
            self.operations.append(ZProducts(register, tuple(sorted(axes)), observables=numbers))
            self.add_tiles(register, fuse(map(inverse_of, change)), BasisChange)

    def _add_register(self, qubits: tuple[int, ...]) -> int:
        number = len(self.registers)
        self.registers.append(Register(qubits, self._rows))
        self._register_of.update(dict.fromkeys(qubits, number))
        self._rows += 2 ** len(qubits)
        return number


def reached_blocks(blocks: Sequence[Block], own: set[int]) -> tuple[list[Block], list[Block]]:
    """Return the gates on some qubits without earlier gates that involve other qubits, and the other gates."""
    inside: list[Block] = []
    rest: list[Block] = []
    blocked: set[int] = set()
    for block in blocks:
        if own.issuperset(block.qubits) and blocked.isdisjoint(block.qubits):
            inside.append(block)
        else:
            rest.append(block)
            blocked.update(block.qubits)
    return inside, rest


def _fewest_tiles(blocks: Sequence[Block]) -> list[list[Block]]:
    """Return the gates of each tile, collected from the first gate on or from the last one back."""
    forward = _tiles(blocks)
    backward = [tile[::-1] for tile in reversed(_tiles(blocks[::-1]))]
    return min(forward, backward, key=len)


def _tiles(blocks: Sequence[Block]) -> list[list[Block]]:
    """Return the gates of each tile. Gates that add the fewest qubits are taken first."""
    waiting, tiles = _Frontier(blocks), []
    while waiting.free:
        tile: list[Block] = []
        qubits: set[int] = set()
        while waiting.free:
            size, number = min((len(qubits.union(blocks[number].qubits)), number) for number in waiting.free)
            if tile and size > TILE_QUBITS:
                break
            tile.append(waiting.take(number))
            qubits.update(tile[-1].qubits)
        tiles.append(tile)
    return tiles
