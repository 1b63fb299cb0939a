"""Light cones of readouts, and their factorization into parts."""

import dataclasses

import cirq
import numpy as np
import pytest
import sympy

from qcnn.circuits import circuits
from qcnn.circuits.circuits import Ansatz
from qcnn.circuits.preparation import ring_edges
from qcnn.simulators.structure import light_cones
from qcnn.simulators.structure.gate_fusion import fuse
from qcnn.simulators.structure.gates import read_network
from qcnn.simulators.structure.light_cones import CircuitIndex, Factorization, LightCone
from qcnn.simulators.structure.network import CircuitIR, Gate
from qcnn.simulators.structure.pauli_strings import PauliString


def network_of(qubits: int, model: str = "hybrid") -> CircuitIR:
    return read_network(circuits.build(model, qubits), circuits.ring(qubits))


def index_of(network: CircuitIR) -> CircuitIndex:
    return CircuitIndex(network.gates, ring_edges(network.qubits))


def splits_of(network: CircuitIR) -> list[Factorization]:
    """Return the factorization of every readout, computed once per distinct cone."""
    index = index_of(network)
    kinds: dict[tuple[object, ...], Factorization] = {}
    splits = []
    for (readout,), _ in network.strings:
        cone, _ = index.cone(readout)
        splits.append(kinds.setdefault(cone.key, light_cones.split(cone)))
    return splits


def shape(cone: LightCone) -> tuple[int, int, int]:
    return cone.targets, cone.inner, cone.outer


def bridged(qubits: int, first: int, second: int, layer: int) -> Ansatz:
    """Return `hybrid` with one more gate on any two qubits: before (0) or after (1) the convolution, or last (2)."""
    ring, symbols = circuits.ring(qubits), (*sympy.symbols("s0:21"), sympy.Symbol("t"))
    pooled, sinks = circuits.pool(ring, symbols[15:21])
    layers = [circuits.convolution(ring, symbols), pooled]
    layers.insert(layer, cirq.Circuit(cirq.CZ(ring[first], ring[second]) ** symbols[-1]))
    return Ansatz(sum(layers, cirq.Circuit()), symbols, tuple(sinks))


@pytest.mark.parametrize("qubits", [12, 24])
def test_split_hybrid_gives_two_parts_of_four_qubits(qubits: int) -> None:
    for split in splits_of(network_of(qubits)):
        assert split.targets == 2
        assert [shape(part.cone) for part in split.parts] == [(1, 4, 2)] * 2
        first, second = (set(part.labels) for part in split.parts)
        assert not first & second
        # The absorbed gates are the pooling and the rotations around it.
        assert all(max(gate.qubits) < 2 for gate in split.absorbed)


def test_split_parts_with_common_neighbors_are_joined() -> None:
    """At n = 10 the gates of the two parts have no common qubit, but they have common neighbors."""
    for split in splits_of(network_of(10)):
        assert [part.cone.inner for part in split.parts] == [8]
        assert [part.cone.outer for part in split.parts] == [2]


@pytest.mark.parametrize("qubits", range(4, 11))
def test_split_short_ring_gives_one_part(qubits: int) -> None:
    for split in splits_of(network_of(qubits)):
        assert len(split.parts) == 1


def test_split_gate_between_parts_joins_them() -> None:
    """Parts of readout k at n = 16 are around k and k + 8. A gate before all others joins the parts it touches."""
    splits = splits_of(read_network(bridged(16, 3, 11, 0), circuits.ring(16)))
    shapes = [[shape(part.cone) for part in split.parts] for split in splits]
    apart = [(1, 4, 2)] * 2
    joined = [(4, 8, 4)]
    assert shapes == [apart, joined, joined, joined, joined, apart, apart, apart]


@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize(("first", "second"), [(3, 11), (3, 12), (4, 13), (6, 10)])
def test_split_parts_are_disjoint_and_complete(first: int, second: int, layer: int) -> None:
    network = read_network(bridged(16, first, second, layer), circuits.ring(16))
    index = index_of(network)
    for (readout,), _ in network.strings:
        cone, _ = index.cone(readout)
        split = light_cones.split(cone)
        labels = [label for part in split.parts for label in part.labels]
        assert len(labels) == len(set(labels))
        assert len(split.absorbed) + sum(len(part.cone.gates) for part in split.parts) == len(cone.gates)
        assert sum(len(part.cone.edges) for part in split.parts) == len(cone.edges)
        assert sorted(target for part in split.parts for target in part.targets) == list(range(split.targets))


def test_split_absorbs_last_gate_into_observable() -> None:
    plain = splits_of(network_of(16))[3]
    split = splits_of(read_network(bridged(16, 3, 11, 1), circuits.ring(16)))[3]
    assert [part.cone.key for part in split.parts] == [part.cone.key for part in plain.parts]
    assert len(split.absorbed) == len(plain.absorbed) + 1


@pytest.mark.parametrize(
    "network",
    [network_of(8, "deep"), network_of(9), *(read_network(bridged(16, 3, 11, n), circuits.ring(16)) for n in range(3))],
)
def test_cost_of_cut_equals_that_of_relabeled_parts(network: CircuitIR) -> None:
    cone, _ = index_of(network).cone(network.strings[0].qubits[0])
    for cut in light_cones._cuts(cone):
        parts = [part.cone for part in light_cones._parts(cone, cut)]
        sweeps = sum(part.amplitudes * max(1, len(fuse(part.gates))) for part in parts)
        observable = 4**cut.targets * sum(1 + 2 * part.inner for part in parts)
        assert light_cones._cost(cone, cut) == sweeps + observable


@pytest.mark.parametrize("qubits", [12, 24, 64])
def test_even_ring_has_two_distinct_cones(qubits: int) -> None:
    network = network_of(qubits)
    index = index_of(network)
    keys = [index.cone(readout)[0].key for ((readout,), _) in network.strings]
    assert len(set(keys)) == 2
    # Cones alternate from the first to the last readout, both of which have a part across the end of the ring.
    assert keys[::2] == [keys[0]] * len(keys[::2])
    assert keys[1::2] == [keys[1]] * len(keys[1::2])
    assert {(qubits - 1, 0), (0, qubits - 1)} & {gate.qubits for gate in network.gates}


def test_odd_ring_has_five_distinct_cones_at_any_length() -> None:
    def kinds(qubits: int) -> set[tuple[object, ...]]:
        network = network_of(qubits)
        index = index_of(network)
        return {index.cone(readout)[0].key for ((readout,), _) in network.strings}

    for short, long in ((23, 203), (25, 201)):
        assert kinds(short) == kinds(long)
        assert len(kinds(short)) == 5


def moved(network: CircuitIR, steps: int) -> CircuitIR:
    """Return the circuit shifted on the ring."""
    n = network.qubits
    gates = [dataclasses.replace(g, qubits=tuple((q + steps) % n for q in g.qubits)) for g in network.gates]
    strings = tuple(
        PauliString(tuple((q + steps) % n for q in string.qubits), string.axes) for string in network.strings
    )
    sums = dataclasses.replace(network.sums, strings=strings)
    return dataclasses.replace(network, gates=tuple(gates), sums=sums)


def shuffled(network: CircuitIR, seed: int) -> CircuitIR:
    """Return the circuit with gates on disjoint qubits in a random order."""
    random, left, gates = np.random.default_rng(seed), list(network.gates), []
    while left:
        seen: set[int] = set()
        free: list[Gate] = []
        for gate in left:
            if not seen.intersection(gate.qubits):
                free.append(gate)
            seen.update(gate.qubits)
        gate = free[random.integers(len(free))]
        left = [other for other in left if other is not gate]
        gates.append(gate)
    return dataclasses.replace(network, gates=tuple(gates))


@pytest.mark.parametrize("qubits", [13, 16])
def test_parts_are_invariant_under_shift_and_gate_order(qubits: int) -> None:
    network = network_of(qubits)
    expected = [(split.targets, [part.cone.key for part in split.parts]) for split in splits_of(network)]
    changed = [*(moved(network, steps) for steps in (1, 5, qubits - 1)), shuffled(network, 1)]
    for other in changed:
        assert [(s.targets, [part.cone.key for part in s.parts]) for s in splits_of(other)] == expected


def test_cone_returns_qubits_of_its_labels() -> None:
    network = network_of(16)
    index = index_of(network)
    for number, ((readout,), _) in enumerate(network.strings):
        cone, where = index.cone(readout)
        assert where[0] == readout
        # The qubit that is pooled into the readout, and the pairs that overlap one of the two.
        near = {(q + step) % 16 for q in (number, readout) for step in range(-2, 3)}
        assert set(where[: cone.inner]) < near
        assert len(set(where)) == len(where) == cone.inner + cone.outer
        edges = {frozenset((where[a], where[b])) for a, b in cone.edges}
        touched = {frozenset(pair) for pair in ring_edges(16) if set(pair) & set(where[: cone.inner])}
        assert edges == touched


def test_cone_omits_gates_after_readout() -> None:
    ring, t = circuits.ring(8), sympy.Symbol("t")
    circuit = cirq.Circuit(cirq.X(ring[2]) ** t, cirq.CNOT(ring[2], ring[3]), cirq.X(ring[3]) ** t)
    index = index_of(read_network(Ansatz(circuit, (t,), (ring[2], ring[5])), ring))
    cone, where = index.cone(2)
    assert (len(cone.gates), cone.inner) == (2, 2)
    assert set(where) == {1, 2, 3, 4}
    cone, where = index.cone(5)
    assert (len(cone.gates), cone.inner, set(where)) == (0, 1, {4, 5, 6})
