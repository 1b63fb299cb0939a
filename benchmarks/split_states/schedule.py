"""Schedule of a circuit on a split state: segments of gates on local qubits, and exchanges of qubits between them.

A state of n qubits is split into 2^k shares of 2^(n - k) amplitudes. The values of k global qubits are the index of a
share. The other qubits are local: a gate on local qubits changes each share independently. An exchange swaps all global
qubits with local ones.
"""

import dataclasses
from collections.abc import Collection, Sequence

from qcnn.simulators.kernels.program import reached_blocks
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
    every = range(network.qubits)
    remaining, segments, before = fuse(network.gates), list[Segment](), tuple[int, ...]()
    while remaining or not segments:
        chosen = _global_qubits(remaining, every, before, count)
        local, remaining = reached_blocks(remaining, set(every).difference(chosen))
        segments.append(Segment(chosen, tuple(group_blocks(local))))
        before = chosen
    return segments


def _global_qubits(
    blocks: Sequence[Block], every: Collection[int], before: Collection[int], count: int
) -> tuple[int, ...]:
    """Select global qubits that were local before, in ascending order."""
    chosen: list[int] = []
    rest = [qubit for qubit in every if qubit not in before]
    for _ in range(count):
        best = max(rest, key=lambda qubit: len(reached_blocks(blocks, set(every).difference(chosen, [qubit]))[0]))
        chosen.append(best)
        rest.remove(best)
    return tuple(sorted(chosen))
