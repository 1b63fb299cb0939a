"""Schedule of a circuit on a split state: segments of gates on local qubits, and exchanges of qubits between them.

A state of n qubits is split into 2^k shares of 2^(n - k) amplitudes. The values of k global qubits are the index of a
share. The other qubits are local: a gate on local qubits changes each share independently. An exchange swaps all global
qubits with local ones.
"""

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from qcnn.simulators.structure.gate_fusion import MAX_QUBITS, Block, GateGroup, fuse, group_blocks
from qcnn.simulators.structure.gates import CircuitIR


@dataclasses.dataclass(frozen=True)
class Segment:
    """Groups of blocks that act on local qubits only, and the global qubits meanwhile."""

    global_qubits: tuple[int, ...]
    groups: tuple[GateGroup, ...]


def schedule(network: CircuitIR, shares: int) -> list[Segment]:
    """Return the segments of a circuit. An exchange separates consecutive segments.

    Each segment contains all blocks that can be applied. Its global qubits are selected one at a time, so that the
    largest number of blocks can be applied.

    Args:
        network: Network to evolve.
        shares: Number of shares, a power of two.

    Raises:
        ValueError: If the number of shares is not a power of two, or too few qubits are local.
    """
    count = shares.bit_length() - 1
    if shares != 1 << count:
        raise ValueError(f"shares: must be a power of two. Given: {shares}")
    if network.qubits < 2 * count + MAX_QUBITS:
        raise ValueError(f"qubits: must be at least {2 * count + MAX_QUBITS} for {shares} shares")
    remaining, segments, before = fuse(network.gates), list[Segment](), tuple[int, ...]()
    while remaining or not segments:
        chosen = _global_qubits(remaining, [q for q in range(network.qubits) if q not in before], count)
        local, remaining = _separate(remaining, chosen)
        segments.append(Segment(chosen, tuple(group_blocks(local))))
        before = chosen
    return segments


def _global_qubits(blocks: Sequence[Block], candidates: Iterable[int], count: int) -> tuple[int, ...]:
    """Select global qubits, in ascending order."""
    chosen: list[int] = []
    rest = list(candidates)
    for _ in range(count):
        best = max(rest, key=lambda qubit: len(_separate(blocks, [*chosen, qubit])[0]))
        chosen.append(best)
        rest.remove(best)
    return tuple(sorted(chosen))


def _separate(blocks: Iterable[Block], global_qubits: Collection[int]) -> tuple[list[Block], list[Block]]:
    """Return the blocks that can be applied with these global qubits, and the remaining blocks."""
    blocked, local, remaining = set(global_qubits), list[Block](), list[Block]()
    for block in blocks:
        if blocked.isdisjoint(block.qubits):
            local.append(block)
        else:
            blocked.update(block.qubits)
            remaining.append(block)
    return local, remaining
