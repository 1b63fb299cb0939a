"""Gates fused into blocks and blocks collected into groups: the same circuit, of the sizes that are promised."""

import itertools

import pytest
from hypothesis import given

from qcnn.circuits import circuits
from qcnn.circuits.circuits import Ansatz
from qcnn.simulators.structure.gate_fusion import fuse, group_blocks
from qcnn.simulators.structure.gates import read_model, read_network
from tests.qcnn.simulators.drawn import ansatzes, repeatable


@given(ansatzes())
@repeatable
def test_every_gate_is_in_one_block_and_after_those_it_must_follow(drawn: tuple[Ansatz, int]) -> None:
    ansatz, qubits = drawn
    gates = read_network(ansatz, circuits.ring(qubits)).gates
    blocks = fuse(gates)
    fused = [gate for block in blocks for gate in block.gates]
    assert sorted(map(id, fused)) == sorted(map(id, gates))
    for qubit in range(qubits):
        # Gates may change places only where they share no qubit.
        assert [id(g) for g in fused if qubit in g.qubits] == [id(g) for g in gates if qubit in g.qubits]


@given(ansatzes())
@repeatable
def test_a_block_is_as_large_as_its_largest_gate_and_no_smaller_than_need_be(drawn: tuple[Ansatz, int]) -> None:
    ansatz, qubits = drawn
    blocks = fuse(read_network(ansatz, circuits.ring(qubits)).gates)
    for block in blocks:
        assert list(block.qubits) == sorted({qubit for gate in block.gates for qubit in gate.qubits})
        assert len(block.qubits) == max(len(gate.qubits) for gate in block.gates)
        if len(block.qubits) == 1:
            # Any other block on that qubit could have taken it in.
            assert [other for other in blocks if block.qubits[0] in other.qubits] == [block]


@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_built_in_circuits_fuse_to_pairs(model: str) -> None:
    assert {len(block.qubits) for block in fuse(read_model(model, 9)[1].gates)} == {2}


@given(ansatzes(most=12))
@repeatable
def test_groups_hold_every_block_in_order_on_four_qubits_at_most(drawn: tuple[Ansatz, int]) -> None:
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
    # Neighbours that would fit into one are one.
    for one, other in itertools.pairwise(groups):
        assert len({*one.qubits, *other.blocks[0].qubits}) > 4
