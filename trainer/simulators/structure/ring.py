"""The ring that the data state is made on: which qubits CZ joins."""

from collections.abc import Sequence
from typing import TypeAlias

# Pairs of qubits joined by CZ.
Edges: TypeAlias = Sequence[tuple[int, int]]


def ring_edges(qubits: int) -> list[tuple[int, int]]:
    """Return the pairs of neighbours on the ring, the closing pair included."""
    return [(qubit, (qubit + 1) % qubits) for qubit in range(qubits)]
