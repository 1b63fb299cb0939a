"""Fusion of gates into blocks of few qubits, and of blocks into groups that act as one matrix each."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.simulators.structure.network import Gate

# Maximum number of qubits of a block or group. Up to this number, matrix products take no longer than memory access.
MAX_QUBITS = 4


@dataclasses.dataclass(frozen=True)
class Block:
    """Gates on the same few, ascending qubits, in the order in which they act."""

    qubits: tuple[int, ...]
    gates: tuple[Gate, ...]

    @functools.cached_property
    def key(self) -> tuple[object, ...]:
        """Key that is equal for blocks with equal matrices at all parameters, independent of their qubits."""
        axes = {qubit: axis for axis, qubit in enumerate(self.qubits)}
        return len(self.qubits), tuple((gate.key, tuple(map(axes.__getitem__, gate.qubits))) for gate in self.gates)

    @functools.cached_property
    def is_by_sample(self) -> bool:
        """Whether a gate depends on inputs."""
        return any(gate.is_by_sample for gate in self.gates)


def fuse(gates: Iterable[Gate], separate: Callable[[Gate], bool] = lambda _: False) -> list[Block]:
    """Fuse gates greedily into blocks.

    A gate joins the preceding block on its qubits, or absorbs smaller preceding blocks. No block is larger than its
    largest gate. A block on one qubit remains only if no later gate can absorb it.

    Args:
        gates: Gates in the order in which they act.
        separate: Function of a gate, true if the gate is a separate block, unless it joins one.
    """
    blocks: dict[int, tuple[tuple[int, ...], list[Gate]]] = {}
    alone: set[int] = set()
    last: dict[int, int] = {}
    for number, gate in enumerate(gates):
        before = [last.get(qubit) for qubit in gate.qubits]
        if before and before[0] is not None and before[0] not in alone and before.count(before[0]) == len(before):
            blocks[before[0]][1].append(gate)
            continue
        absorbed: list[Gate] = []
        if separate(gate):
            alone.add(number)
        else:
            for block in dict.fromkeys(before):
                if block is None or block in alone:
                    continue
                qubits, inside = blocks[block]
                if set(qubits) <= set(gate.qubits) and all(last[qubit] == block for qubit in qubits):
                    absorbed += inside
                    del blocks[block]
        blocks[number] = (tuple(sorted(gate.qubits)), [*absorbed, gate])
        last.update(dict.fromkeys(gate.qubits, number))
    return [Block(qubits, tuple(inside)) for qubits, inside in blocks.values()]


@dataclasses.dataclass(frozen=True)
class GateGroup:
    """Blocks on the same few, ascending qubits, in the order in which they act.

    A block that depends on inputs is in a group without other blocks.
    """

    qubits: tuple[int, ...]
    blocks: tuple[Block, ...]

    @property
    def is_by_sample(self) -> bool:
        """Whether it depends on inputs."""
        return self.blocks[0].is_by_sample

    @property
    def key(self) -> tuple[object, ...]:
        """Key that is equal for groups with equal matrices at all parameters, independent of their qubits."""
        axes = {qubit: axis for axis, qubit in enumerate(self.qubits)}
        return len(self.qubits), tuple((block.key, tuple(axes[q] for q in block.qubits)) for block in self.blocks)


def group_blocks(blocks: Sequence[Block]) -> list[GateGroup]:
    """Collect blocks into groups: each block joins the first possible group with capacity for its qubits.

    Blocks that depend on inputs join no group: the product of larger matrices for each sample takes longer.
    """
    groups: list[tuple[set[int], list[Block]]] = []
    last: dict[int, int] = {}
    for block in blocks:
        earliest = max((last[qubit] for qubit in block.qubits if qubit in last), default=0)
        for number in range(len(groups) if block.is_by_sample else earliest, len(groups)):
            qubits, inside = groups[number]
            if not inside[0].is_by_sample and len(qubits.union(block.qubits)) <= max(MAX_QUBITS, len(block.qubits)):
                break
        else:
            number = len(groups)
            qubits, inside = set(), []
            groups.append((qubits, inside))
        qubits.update(block.qubits)
        inside.append(block)
        last.update(dict.fromkeys(block.qubits, number))
    return [GateGroup(tuple(sorted(qubits)), tuple(inside)) for qubits, inside in groups]


def expand_to_block(
    matrices: npt.NDArray[Any], qubits: Sequence[int], block: Sequence[int], levels: int
) -> npt.NDArray[Any]:
    """Extend matrices on some qubits to all qubits of a block.

    Args:
        matrices: Matrices, (..., levels^k, levels^k).
        qubits: The k qubits that the matrices act on.
        block: Qubits of the block, which include `qubits`.
        levels: Dimension per qubit: 2 for operators, 4 for Pauli coefficients.
    """
    rest = [qubit for qubit in block if qubit not in qubits]
    wide = np.kron(matrices, np.eye(levels ** len(rest)))
    leading, size = wide.shape[:-2], len(block)
    order = [[*qubits, *rest].index(qubit) for qubit in block]
    first = len(leading)
    axes = [*range(first), *(first + axis for axis in order), *(first + size + axis for axis in order)]
    return wide.reshape(*leading, *(levels,) * (2 * size)).transpose(axes).reshape(wide.shape)
