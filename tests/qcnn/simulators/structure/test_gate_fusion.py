"""Fusion of gates into blocks, and of blocks into groups."""

import itertools

import pytest
from hypothesis import given

from qcnn.circuits import circuits
from qcnn.circuits.circuits import Ansatz
from qcnn.simulators.structure.gate_fusion import fuse, group_blocks
from qcnn.simulators.structure.gates import read_model, read_network
from tests.qcnn.simulators.random_circuits import ansatzes, repeatable


@given(ansatzes())
@repeatable
def test_fuse_keeps_all_gates_in_order(drawn: tuple[Ansatz, int]) -> None:
    ansatz, qubits = drawn
    gates = read_network(ansatz, circuits.ring(qubits)).gates
    blocks = fuse(gates)
    fused = [gate for block in blocks for gate in block.gates]
    assert sorted(map(id, fused)) == sorted(map(id, gates))
    for qubit in range(qubits):
        # Only gates on disjoint qubits may be reordered.
        assert [id(g) for g in fused if qubit in g.qubits] == [id(g) for g in gates if qubit in g.qubits]


@given(ansatzes())
@repeatable
def test_fuse_block_size_equals_largest_gate(drawn: tuple[Ansatz, int]) -> None:
    ansatz, qubits = drawn
    blocks = fuse(read_network(ansatz, circuits.ring(qubits)).gates)
    for block in blocks:
        assert list(block.qubits) == sorted({qubit for gate in block.gates for qubit in gate.qubits})
        assert len(block.qubits) == max(len(gate.qubits) for gate in block.gates)
        if len(block.qubits) == 1:
            # Any other block on that qubit would have absorbed it.
            assert [other for other in blocks if block.qubits[0] in other.qubits] == [block]


@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_fuse_built_in_models_gives_two_qubit_blocks(model: str) -> None:
    assert {len(block.qubits) for block in fuse(read_model(model, 9)[1].gates)} == {2}


@given(ansatzes(most=12))
@repeatable
def test_group_blocks_keeps_order_on_at_most_four_qubits(drawn: tuple[Ansatz, int]) -> None:
    ansatz, qubits = drawn
    blocks = fuse(read_network(ansatz, circuits.ring(qubits)).gates)
    groups = group_blocks(blocks)
    collected = [block for group in groups for block in group.blocks]
    assert sorted(map(id, collected)) == sorted(map(id, blocks))
    for qubit in range(qubits):
        assert [id(b) for b in collected if qubit in b.qubits] == [id(b) for b in blocks if qubit in b.qubits]
    for group in groups:
        assert list(group.qubits) == sorted({qubit for block in group.blocks for qubit in block.qubits})
        assert len(group.qubits) <= 4
    # Consecutive groups that fit into one group are merged.
    for one, other in itertools.pairwise(groups):
        assert len({*one.qubits, *other.blocks[0].qubits}) > 4
