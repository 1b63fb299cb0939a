"""Light cones of readouts, and their factorization into independent parts.

The CZ gates of a graph state commute, so that only those that touch a cone matter. Their qubits outside of the cone are
traced out. Qubits are independent if no remaining gate and no CZ connects them, also not through a traced-out qubit:
their joint state is a product state.
"""

import bisect
import dataclasses
import functools
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from qcnn.circuits.preparation import Edges
from qcnn.simulators.structure.gate_fusion import fuse
from qcnn.simulators.structure.network import Gate

# An observable on more qubits costs more than further factorization saves.
_MAX_TARGETS = 4
# In wider cones one part has at least a quarter of the qubits, and its states exceed any memory.
_MAX_INNER = 128


class LightConeTooWideError(Exception):
    """A light cone has too many qubits for any memory."""


@dataclasses.dataclass(frozen=True)
class LightCone:
    """Gates that target qubits depend on, with relabeled qubits.

    Equal structures have equal cones, independent of their position in the circuit.

    Attributes:
        gates: Gates from the last to the first.
        targets: Number of target qubits, which have the first labels.
        inner: Number of qubits of the cone, including targets, which have the next labels.
        outer: Number of qubits that are traced out, which have the last labels.
        edges: CZ gates of the data state that touch the cone.
    """

    gates: tuple[Gate, ...]
    targets: int
    inner: int
    outer: int
    edges: tuple[tuple[int, int], ...]

    @functools.cached_property
    def key(self) -> tuple[object, ...]:
        """Key that is equal for equal cones."""
        return tuple((gate.key, gate.qubits) for gate in self.gates), self.targets, self.inner, self.outer, self.edges

    @property
    def amplitudes(self) -> int:
        """Number of amplitudes of the states that samples span: unexcited, and one flipped per inner qubit."""
        return _amplitudes(self.inner, self.outer)


@dataclasses.dataclass(frozen=True)
class ConeFactor:
    """Independent part of a cone, with the labels of its targets and qubits in the whole cone."""

    cone: LightCone
    targets: tuple[int, ...]
    labels: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Factorization:
    """Readout as the expectation value of an observable on a product of independent parts.

    The observable is Z on label 0, propagated backwards through the absorbed gates.

    Attributes:
        absorbed: Gates of the observable from the first to the last, on the labels below `targets`.
        targets: Number of qubits of the observable.
        parts: Independent parts.
    """

    absorbed: tuple[Gate, ...]
    targets: int
    parts: tuple[ConeFactor, ...]


class CircuitIndex:
    """Index of a circuit's gates by qubit, which finds the gates of a cone without visiting other gates."""

    def __init__(self, gates: Sequence[Gate], edges: Edges) -> None:
        self._gates = gates
        self._on: dict[int, list[int]] = {}
        for number, gate in enumerate(gates):
            for qubit in gate.qubits:
                self._on.setdefault(qubit, []).append(number)
        self._neighbors: dict[int, list[int]] = {}
        for a, b in edges:
            self._neighbors.setdefault(a, []).append(b)
            self._neighbors.setdefault(b, []).append(a)
        self._known: dict[tuple[object, ...], tuple[LightCone, tuple[int, ...], int]] = {}

    def cone(self, readout: int) -> tuple[LightCone, tuple[int, ...]]:
        """Return the cone of a readout and the qubit of each label.

        Cones of the same structure are usually the same object.

        Raises:
            LightConeTooWideError: If the cone has too many qubits for any memory.
        """
        gates = [self._gates[number] for number in sorted(self._cone_numbers(readout))]
        places = self._places(gates, readout)
        if places not in self._known:
            self._known[places] = *_canonical(gates, [readout], self._neighbors), readout
        cone, labels, origin = self._known[places]
        return cone, tuple(label + readout - origin for label in labels)

    def _places(self, gates: Sequence[Gate], readout: int) -> tuple[object, ...]:
        """Return a cache key: the gates and edges of a cone, with qubits relative to the readout."""
        touched = dict.fromkeys(qubit for gate in gates for qubit in gate.qubits)
        joined = ((qubit, *self._neighbors.get(qubit, ())) for qubit in (readout, *touched))
        return (
            # Equal gates share one spectrum and one exponent object.
            tuple((id(gate.spectrum), id(gate.exponent), *(q - readout for q in gate.qubits)) for gate in gates),
            tuple(tuple(other - readout for other in others) for others in joined),
        )

    def _cone_numbers(self, readout: int) -> Iterator[int]:
        position = {readout: len(self._on.get(readout, []))}
        waiting: list[int] = []

        def push(qubit: int) -> None:
            position[qubit] -= 1
            if position[qubit] >= 0:
                heapq.heappush(waiting, -self._on[qubit][position[qubit]])

        push(readout)
        done = len(self._gates)
        while waiting:
            number = -heapq.heappop(waiting)
            touched = [qubit for qubit in self._gates[number].qubits if qubit in position]
            if number < done:
                yield number
                done = number
                for qubit in self._gates[number].qubits:
                    if qubit not in position:
                        position[qubit] = bisect.bisect_left(self._on[qubit], number)
                        push(qubit)
                if len(position) > _MAX_INNER:
                    raise LightConeTooWideError
            for qubit in touched:
                if position[qubit] >= 0 and self._on[qubit][position[qubit]] == number:
                    push(qubit)


def split(cone: LightCone) -> Factorization:
    """Return the cheapest exact factorization over the number of absorbed gates."""
    cut = min(_cuts(cone), key=lambda candidate: _cost(cone, candidate))
    return Factorization(cone.gates[: cut.absorbed][::-1], cut.targets, tuple(_parts(cone, cut)))


class _Cut(NamedTuple):
    """Numbers of gates that an observable absorbs and of its targets, and the smallest connected label of each label.

    The connections are those of the remaining gates and the edges.
    """

    absorbed: int
    targets: int
    group: list[int]


def _cuts(cone: LightCone) -> Iterator[_Cut]:
    targets, absorbed = 1, 0
    while targets <= _MAX_TARGETS:
        while absorbed < len(cone.gates) and max(cone.gates[absorbed].qubits) < targets:
            absorbed += 1
        links = dict.fromkeys(gate.qubits for gate in cone.gates[absorbed:])
        yield _Cut(absorbed, targets, _smallest_connected([*cone.edges, *links], cone.inner + cone.outer))
        if absorbed == len(cone.gates):
            return
        # Labels are numbered by first appearance, so that the next gate adds the next labels.
        targets = 1 + max(cone.gates[absorbed].qubits)


def _cost(cone: LightCone, cut: _Cut) -> int:
    """Return the estimated arithmetic of a step: amplitudes times blocks, and size of the observable.

    Neither depends on the labels within the parts, so that they are not relabeled for each cut.
    """
    blocks = Counter(cut.group[block.qubits[0]] for block in fuse(cone.gates[cut.absorbed :]))
    total = 0
    for root in dict.fromkeys(cut.group[: cut.targets]):
        inner, outer = cut.group[: cone.inner].count(root), cut.group[cone.inner :].count(root)
        total += _amplitudes(inner, outer) * max(1, blocks[root]) + (1 << 2 * cut.targets) * (1 + 2 * inner)
    return total


def _amplitudes(inner: int, outer: int) -> int:
    return (1 + inner) << (inner + outer)


def _parts(cone: LightCone, cut: _Cut) -> Iterator[ConeFactor]:
    """Yield the connected parts of the remaining gates that contain targets."""
    neighbors: dict[int, list[int]] = {}
    for a, b in cone.edges:
        neighbors.setdefault(a, []).append(b)
        neighbors.setdefault(b, []).append(a)
    for root in dict.fromkeys(cut.group[: cut.targets]):
        seeds = [target for target in range(cut.targets) if cut.group[target] == root]
        gates = [gate for gate in reversed(cone.gates[cut.absorbed :]) if cut.group[gate.qubits[0]] == root]
        part, labels = _canonical(gates, seeds, neighbors)
        yield ConeFactor(part, tuple(seeds), labels)


def _canonical(
    gates: Sequence[Gate], seeds: Sequence[int], neighbors: Mapping[int, Sequence[int]]
) -> tuple[LightCone, tuple[int, ...]]:
    """Relabel gates by walking backwards from the seeds, so that equal structures get equal labels.

    Return the cone, and the original qubit of each label.
    """
    labels = {qubit: label for label, qubit in enumerate(seeds)}
    # The gates that are left on each qubit, and for each gate the number of qubits on which it is not the last one.
    remaining: dict[int, list[int]] = {qubit: [] for qubit in seeds}
    for number, gate in enumerate(gates):
        for qubit in gate.qubits:
            remaining.setdefault(qubit, []).append(number)
    waiting = [len(gate.qubits) for gate in gates]
    # Gates that are the last ones on all of their qubits, by their smallest label. An observable absorbs gates on
    # labeled qubits at no cost.
    absorbable: list[tuple[int, int]] = []
    reaching: list[tuple[int, int]] = []

    def expose_last(qubit: int) -> None:
        if not remaining[qubit]:
            return
        number = remaining[qubit][-1]
        waiting[number] -= 1
        if not waiting[number]:
            qubits = gates[number].qubits
            known = [labels[other] for other in qubits if other in labels]
            if known:
                heapq.heappush(absorbable if len(known) == len(qubits) else reaching, (min(known), number))

    for qubit in remaining:
        expose_last(qubit)
    ordered = []
    while absorbable or reaching:
        gate = gates[heapq.heappop(absorbable or reaching)[1]]
        for qubit in gate.qubits:
            remaining[qubit].pop()
            labels.setdefault(qubit, len(labels))
        for qubit in gate.qubits:
            expose_last(qubit)
        ordered.append(dataclasses.replace(gate, qubits=tuple(map(labels.__getitem__, gate.qubits))))
    inner = len(labels)
    edges = set()
    for qubit in list(labels):
        for other in neighbors.get(qubit, ()):
            label = labels.setdefault(other, len(labels))
            edges.add((min(labels[qubit], label), max(labels[qubit], label)))
    return LightCone(tuple(ordered), len(seeds), inner, len(labels) - inner, tuple(sorted(edges))), tuple(labels)


def _smallest_connected(links: Iterable[Sequence[int]], count: int) -> list[int]:
    """Return for each of `count` nodes the smallest connected node."""
    group = list(range(count))
    for link in links:
        roots = {group[node] for node in link}
        if len(roots) > 1:
            smallest = min(roots)
            group = [smallest if root in roots else root for root in group]
    return group
