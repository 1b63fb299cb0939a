"""Programs that evolve one state at a time: the lanes of a vector hold qubits of the state instead of samples.

Registers of few qubits keep the same state in all lanes. Gates act on qubits of the rows only. Before a gate on a qubit
of the lanes, all qubits of the lanes are exchanged with those that are not used for the longest time.
"""

import bisect
import dataclasses
import math
from collections.abc import Sequence

from qcnn.simulators.kernels.program import (
    TILE_QUBITS,
    Density,
    Exchange,
    Operation,
    PlainZ,
    Product,
    Program,
    Register,
    Spread,
    Tile,
    ZProducts,
)

# Minimum number of qubits of a register whose lanes hold qubits: those of a tile, of 8 lanes, and for an exchange.
MIN_QUBITS = TILE_QUBITS + 2 * 3


def can_spread(program: Program) -> bool:
    """Return whether a register is large enough for lanes that hold qubits."""
    return any(len(register.qubits) >= MIN_QUBITS for register in program.registers)


def spread(program: Program, lanes: int) -> Program:
    """Return the program that evolves one state, whose lanes hold qubits of the large registers.

    Args:
        program: Program that evolves a sample in each lane.
        lanes: Number of lanes of a vector, a power of two.
    """
    builder = _SpreadBuilder(program, lanes.bit_length() - 1)
    for number, operation in enumerate(program.operations):
        builder.add(operation, number)
    return dataclasses.replace(program, registers=tuple(builder.registers), operations=tuple(builder.operations))


def lane_weights(program: Program, lanes: int) -> list[float]:
    """Return the weight of a lane in the sum over the lanes, of every readout.

    Lanes that hold the same state have equal values.

    Args:
        program: Program of `spread`.
        lanes: Number of lanes.
    """
    split, targets = program.split, {}
    for operation in program.operations:
        measured: Sequence[int] = ()
        match operation:
            case Density():
                measured = [each.readout for each in split.densities[operation.qubits]]
            case PlainZ():
                measured = [each.readout for each in split.plain if each.target in operation.qubits]
            case ZProducts():
                measured = operation.observables
        targets.update(dict.fromkeys(measured, operation.target))
    return [
        1.0 if program.registers[targets[number]].lanes else 1.0 / lanes for number in range(len(split.observables))
    ]


def exchanged(rows: Sequence[int], lanes: Sequence[int], qubits: Sequence[int]) -> tuple[int, ...]:
    """Return the qubits of the rows after an exchange of the lanes with some of them.

    Args:
        rows: Qubits of the rows, most significant first.
        lanes: Qubits of the lanes.
        qubits: Qubits of the rows that are exchanged, in the order of the lanes.
    """
    replacements = dict(zip(qubits, lanes, strict=True))
    return tuple(replacements.get(qubit, qubit) for qubit in rows)


class _SpreadBuilder:
    def __init__(self, program: Program, count: int) -> None:
        self.registers: list[Register] = []
        self.operations: list[Operation] = []
        self._count, self._spread = count, _large_registers(program)
        # Numbers of the gates and observables of the old program on each qubit.
        self._uses: dict[int, list[int]] = {}
        for number, operation in enumerate(program.operations):
            if isinstance(operation, Tile | Density):
                for qubit in operation.qubits:
                    self._uses.setdefault(qubit, []).append(number)
        # Number of each register of the old program, and current qubits of the rows and lanes of the new registers.
        self._numbers: dict[int, int] = {}
        self._rows: list[tuple[int, ...]] = []
        self._lanes: list[tuple[int, ...]] = []
        for number, register in enumerate(program.registers[: program.leaves]):
            first = len(register.qubits) - count if number in self._spread else len(register.qubits)
            self._numbers[number] = self._add_register(register.qubits[:first], register.qubits[first:])

    def add(self, operation: Operation, at: int) -> None:
        """Add an operation of the old program, by its number, and the exchanges that it needs."""
        match operation:
            case Product():
                self._add_product(operation, at)
            case PlainZ():
                self._add_plain(operation, at)
            case ZProducts():
                self.operations.append(dataclasses.replace(operation, target=self._numbers[operation.target]))
            case Tile() | Density():
                number = self._numbers[operation.target]
                self._bring_to_rows(number, operation.qubits, at)
                self.operations.append(dataclasses.replace(operation, target=number))
            case _:
                raise TypeError(operation)

    def _add_product(self, product: Product, at: int) -> None:
        factors = [self._numbers[product.high], self._numbers[product.low]]
        if product.target in self._spread and not any(self._lanes[number] for number in factors):
            position = int(len(self._rows[factors[1]]) > len(self._rows[factors[0]]))
            factors[position] = self._add_spread(factors[position], at)
        high, low = factors
        lanes = self._lanes[high] or self._lanes[low]
        target = self._add_register(self._rows[high] + self._rows[low], lanes)
        self._numbers[product.target] = target
        self.operations.append(Product(target, high, low))

    def _add_spread(self, source: int, at: int) -> int:
        lanes = self._used_last(self._rows[source], at)
        target = self._add_register(tuple(qubit for qubit in self._rows[source] if qubit not in lanes), lanes)
        self.operations.append(Spread(target, source))
        return target

    def _add_plain(self, plain: PlainZ, at: int) -> None:
        number = self._numbers[plain.target]
        inside = set(self._lanes[number]).intersection(plain.qubits)
        if rest := tuple(qubit for qubit in plain.qubits if qubit not in inside):
            self.operations.append(PlainZ(number, rest))
        if inside:
            self._bring_to_rows(number, tuple(inside), at)
            self.operations.append(PlainZ(number, tuple(sorted(inside))))

    def _bring_to_rows(self, number: int, qubits: Sequence[int], at: int) -> None:
        rows, lanes = self._rows[number], self._lanes[number]
        if set(lanes).isdisjoint(qubits):
            return
        chosen = self._used_last([qubit for qubit in rows if qubit not in qubits], at)
        self._rows[number], self._lanes[number] = exchanged(rows, lanes, chosen), chosen
        self.operations.append(Exchange(number, chosen))

    def _used_last(self, qubits: Sequence[int], at: int) -> tuple[int, ...]:
        """Return the qubits for the lanes: those whose next gate or observable, from a number on, is the latest."""

        def next_use(qubit: int) -> float:
            uses = self._uses.get(qubit, [])
            following = bisect.bisect_left(uses, at)
            return uses[following] if following < len(uses) else math.inf

        latest = sorted(qubits, key=next_use)[-self._count :]
        return tuple(qubit for qubit in qubits if qubit in latest)

    def _add_register(self, rows: tuple[int, ...], lanes: tuple[int, ...]) -> int:
        first = sum(2 ** len(register.qubits) for register in self.registers)
        self.registers.append(Register(rows, first, lanes))
        self._rows.append(rows)
        self._lanes.append(lanes)
        return len(self.registers) - 1


def _large_registers(program: Program) -> set[int]:
    """Return the registers whose lanes hold qubits: large ones that are no factor, and the larger factors of those."""
    large = {number for number, each in enumerate(program.registers) if len(each.qubits) >= MIN_QUBITS}
    products = [operation for operation in program.operations if isinstance(operation, Product)]
    factors = {factor for product in products for factor in (product.high, product.low)}
    chosen = large - factors
    for product in reversed(products):
        if product.target in chosen:
            larger = max(product.high, product.low, key=lambda factor: len(program.registers[factor].qubits))
            chosen |= {larger} & large
    return chosen
