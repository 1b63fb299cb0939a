"""Gates fused into blocks of few qubits, and blocks collected into groups that act as one matrix each."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.simulators.structure.gates import Gate

# Products of up to this many qubits cost no more than reading and writing the states does. No block is larger.
MOST_QUBITS = 4


@dataclasses.dataclass(frozen=True)
class Block:
    """Gates, in their order, that act on the same few qubits; these ascend."""

    qubits: tuple[int, ...]
    gates: tuple[Gate, ...]

    @functools.cached_property
    def key(self) -> tuple[object, ...]:
        """Equal for blocks of equal matrices at all parameters, wherever they act."""
        axes = {qubit: axis for axis, qubit in enumerate(self.qubits)}
        return len(self.qubits), tuple((gate.key, tuple(axes[q] for q in gate.qubits)) for gate in self.gates)


def fuse(gates: Iterable[Gate]) -> list[Block]:
    """Fuse greedily: a gate joins the block before it on its qubits, or takes in the smaller ones before it.

    No block is larger than its largest gate, and none is on one qubit where a later gate could take it in.
    """
    blocks: dict[int, tuple[tuple[int, ...], list[Gate]]] = {}
    last: dict[int, int] = {}
    for number, gate in enumerate(gates):
        before = dict.fromkeys(last[qubit] for qubit in gate.qubits if qubit in last)
        host = next((block for block in before if set(gate.qubits) <= set(blocks[block][0])), None)
        if host is not None and all(last[qubit] == host for qubit in gate.qubits):
            blocks[host][1].append(gate)
            continue
        taken: list[Gate] = []
        for block in before:
            qubits, inside = blocks[block]
            if set(qubits) <= set(gate.qubits) and all(last[qubit] == block for qubit in qubits):
                taken += inside
                del blocks[block]
        blocks[number] = (tuple(sorted(gate.qubits)), [*taken, gate])
        last.update(dict.fromkeys(gate.qubits, number))
    return [Block(qubits, tuple(inside)) for qubits, inside in blocks.values()]


@dataclasses.dataclass(frozen=True)
class GateGroup:
    """Blocks, in their order, on the same few qubits, which ascend."""

    qubits: tuple[int, ...]
    blocks: tuple[Block, ...]

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for groups of equal matrices at all parameters, wherever they act."""
        axes = {qubit: axis for axis, qubit in enumerate(self.qubits)}
        return len(self.qubits), tuple((block.key, tuple(axes[q] for q in block.qubits)) for block in self.blocks)


def group_blocks(blocks: Sequence[Block]) -> list[GateGroup]:
    """Collect blocks into groups: each goes into the first that comes late enough and has room for its qubits."""
    groups: list[tuple[set[int], list[Block]]] = []
    last: dict[int, int] = {}
    for block in blocks:
        earliest = max((last[qubit] for qubit in block.qubits if qubit in last), default=0)
        for number in range(earliest, len(groups)):
            qubits, inside = groups[number]
            if len(qubits.union(block.qubits)) <= max(MOST_QUBITS, len(block.qubits)):
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
    """Return matrices on some qubits, (..., levels^k, levels^k), as they act on a block that holds these."""
    rest = [qubit for qubit in block if qubit not in qubits]
    wide = np.kron(matrices, np.eye(levels ** len(rest)))
    leading, size = wide.shape[:-2], len(block)
    order = [[*qubits, *rest].index(qubit) for qubit in block]
    first = len(leading)
    axes = [*range(first), *(first + axis for axis in order), *(first + size + axis for axis in order)]
    return wide.reshape(*leading, *(levels,) * (2 * size)).transpose(axes).reshape(wide.shape)
