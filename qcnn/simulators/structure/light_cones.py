"""Light cones: what a readout depends on, and how that falls apart. Decided from structure alone.

A graph state's CZ gates commute, so of those around a cone only the ones that touch it count; what they lead
to outside is traced out. Qubits that no remaining gate and no CZ joins, not even through a qubit that is
traced out, are independent: the state of them all is the product of their states.
"""

import bisect
import dataclasses
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence

from qcnn.circuits.preparation import Edges
from qcnn.simulators.structure.gate_fusion import fuse
from qcnn.simulators.structure.gates import Gate

# An observable on more qubits is a larger matrix than the parts that it could still separate.
_MOST_TARGETS = 4
# In wider cones some part is on at least a quarter of the qubits, whose states no memory holds.
_MOST_INNER = 128


class LightConeTooWideError(Exception):
    """A light cone holds more qubits than could ever be evolved."""


@dataclasses.dataclass(frozen=True)
class LightCone:
    """Gates that some qubits depend on, in labels of its own: equal structures anywhere have equal cones.

    The first `targets` labels are those qubits, the first `inner` belong to the cone, the rest are traced out.
    `gates` run from the last to the first; `edges` are the CZ gates of the data state that touch the cone.
    """

    gates: tuple[Gate, ...]
    targets: int
    inner: int
    outer: int
    edges: tuple[tuple[int, int], ...]

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal cones."""
        return tuple((gate.key, gate.qubits) for gate in self.gates), self.targets, self.inner, self.outer, self.edges

    @property
    def amplitudes(self) -> int:
        """Complex numbers of the states that its samples span: unexcited, and each of its qubits flipped."""
        return (1 + self.inner) << (self.inner + self.outer)


@dataclasses.dataclass(frozen=True)
class ConeFactor:
    """An independent part of a cone: `targets` and `labels` are the whole's labels of its own."""

    cone: LightCone
    targets: tuple[int, ...]
    labels: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Factorization:
    """A readout as the expectation of an observable on a product of independent parts.

    The observable is Z on label 0 pulled back through `absorbed`, gates from the first to the last on the
    labels below `targets`.
    """

    absorbed: tuple[Gate, ...]
    targets: int
    parts: tuple[ConeFactor, ...]

    @property
    def cost(self) -> int:
        """Amplitudes times blocks, which is what a step's arithmetic grows with."""
        sweeps = sum(part.cone.amplitudes * max(1, len(fuse(part.cone.gates))) for part in self.parts)
        return sweeps + (1 << 2 * self.targets) * sum(1 + 2 * part.cone.inner for part in self.parts)


class CircuitIndex:
    """A circuit after a graph state, indexed so that a cone costs no more than its own gates."""

    def __init__(self, gates: Sequence[Gate], edges: Edges) -> None:
        self._gates = gates
        self._on: dict[int, list[int]] = {}
        for number, gate in enumerate(gates):
            for qubit in gate.qubits:
                self._on.setdefault(qubit, []).append(number)
        self._neighbours: dict[int, list[int]] = {}
        for a, b in edges:
            self._neighbours.setdefault(a, []).append(b)
            self._neighbours.setdefault(b, []).append(a)
        self._known: dict[tuple[object, ...], tuple[LightCone, tuple[int, ...], int]] = {}

    def cone(self, readout: int) -> tuple[LightCone, tuple[int, ...]]:
        """Return the cone of a readout and the qubit of each of its labels; equal cones elsewhere are one object.

        Raises:
            TooWideError: it holds so many qubits that no split of it fits in any memory.
        """
        gates = [self._gates[number] for number in sorted(self._cone_numbers(readout))]
        places = self._places(gates, readout)
        if places not in self._known:
            self._known[places] = *_canonical(gates, [readout], self._neighbours), readout
        cone, labels, origin = self._known[places]
        return cone, tuple(label + readout - origin for label in labels)

    def _places(self, gates: Sequence[Gate], readout: int) -> tuple[object, ...]:
        """Return what a cone consists of and where, counted from the readout."""
        touched = dict.fromkeys(qubit for gate in gates for qubit in gate.qubits)
        joined = ((qubit, *self._neighbours.get(qubit, ())) for qubit in (readout, *touched))
        return (
            # Equal gates are read as one spectrum and one exponent.
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
                if len(position) > _MOST_INNER:
                    raise LightConeTooWideError
            for qubit in touched:
                if position[qubit] >= 0 and self._on[qubit][position[qubit]] == number:
                    push(qubit)


def split(cone: LightCone) -> Factorization:
    """Return the cheapest exact split: how many of the last gates the observable takes in."""
    return min(_splits(cone), key=lambda candidate: candidate.cost)


def _splits(cone: LightCone) -> Iterator[Factorization]:
    targets, taken = 1, 0
    while targets <= _MOST_TARGETS:
        while taken < len(cone.gates) and max(cone.gates[taken].qubits) < targets:
            taken += 1
        yield Factorization(cone.gates[:taken][::-1], targets, tuple(_parts(cone, taken, targets)))
        if taken == len(cone.gates):
            return
        # Labels follow first appearance: a gate that reaches further adds the next ones.
        targets = 1 + max(cone.gates[taken].qubits)


def _parts(cone: LightCone, taken: int, targets: int) -> Iterator[ConeFactor]:
    """Yield the connected parts of what is left, each with its targets; parts without targets do not matter."""
    remaining = cone.gates[taken:]
    group = _connected([*cone.edges, *(gate.qubits for gate in remaining)], cone.inner + cone.outer)
    neighbours: dict[int, list[int]] = {}
    for a, b in cone.edges:
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    for root in dict.fromkeys(group[target] for target in range(targets)):
        seeds = [target for target in range(targets) if group[target] == root]
        gates = [gate for gate in reversed(remaining) if group[gate.qubits[0]] == root]
        own, labels = _canonical(gates, seeds, neighbours)
        yield ConeFactor(own, tuple(seeds), labels)


def _canonical(
    gates: Sequence[Gate], seeds: Sequence[int], neighbours: Mapping[int, Sequence[int]]
) -> tuple[LightCone, tuple[int, ...]]:
    """Relabel gates, in their order, by walking back from the seeds: equal structures get equal labels anywhere."""
    labels = {qubit: label for label, qubit in enumerate(seeds)}
    left: dict[int, list[Gate]] = {qubit: [] for qubit in seeds}
    for gate in gates:
        for qubit in gate.qubits:
            left.setdefault(qubit, []).append(gate)
    ordered = []
    while (following := _next(labels, left)) is not None:
        for qubit in following.qubits:
            left[qubit].pop()
            labels.setdefault(qubit, len(labels))
        ordered.append(dataclasses.replace(following, qubits=tuple(labels[qubit] for qubit in following.qubits)))
    inner = len(labels)
    edges = set()
    for qubit in list(labels):
        for other in neighbours.get(qubit, ()):
            label = labels.setdefault(other, len(labels))
            edges.add((min(labels[qubit], label), max(labels[qubit], label)))
    return LightCone(tuple(ordered), len(seeds), inner, len(labels) - inner, tuple(sorted(edges))), tuple(labels)


def _next(labels: Mapping[int, int], left: Mapping[int, list[Gate]]) -> Gate | None:
    """Return the next gate back, if possible one on known labels alone, which an observable takes in for free."""
    reaching = None
    for qubit in labels:
        gate = left[qubit][-1] if left[qubit] else None
        if gate is not None and all(left[other][-1] is gate for other in gate.qubits):
            if all(other in labels for other in gate.qubits):
                return gate
            reaching = reaching or gate
    return reaching


def _connected(links: Iterable[Sequence[int]], count: int) -> list[int]:
    """Return for each of `count` nodes the smallest one that it is connected with."""
    group = list(range(count))
    for link in links:
        roots = {group[node] for node in link}
        if len(roots) > 1:
            smallest = min(roots)
            group = [smallest if root in roots else root for root in group]
    return group
