"""Gates fused into blocks: the same circuit, of the sizes that are promised, each matrix once."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given

from tests.trainer.simulators.drawn import ansatzes, assert_equal_up_to_phase, repeatable, unitary
from trainer.quantum import circuits
from trainer.quantum.circuits import Ansatz
from trainer.simulators.blocks import Block, Matrices, fuse
from trainer.simulators.gates import read_network


def blocks_of(model: str, qubits: int) -> list[Block]:
    ring = circuits.ring(qubits)
    return fuse(read_network(circuits.build(model, qubits), ring).gates)


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


@given(ansatzes(least=4, most=5))
@repeatable
def test_a_blocks_matrix_is_that_of_its_gates(drawn: tuple[Ansatz, int]) -> None:
    """One block of all gates, on the whole ring and in any order of qubits within the gates."""
    ansatz, qubits = drawn
    gates = read_network(ansatz, circuits.ring(qubits)).gates
    block = Block(tuple(range(qubits)), gates)
    values = np.random.default_rng(0).uniform(-2, 2, len(ansatz.symbols))
    matrices = Matrices([block], qubits, len(values))
    actual = matrices(tf.constant(values, tf.float64))[matrices.index(block)].numpy()
    assert_equal_up_to_phase(actual, unitary(ansatz.circuit, ansatz.symbols, values, qubits))


def test_equal_blocks_share_one_matrix_however_long_the_ring() -> None:
    kinds = {}
    for qubits in (12, 64):
        blocks = blocks_of("hybrid", qubits)
        matrices = Matrices(blocks, 2, 21)
        values = matrices(tf.constant(np.random.default_rng(0).uniform(0, 2, 21)))
        # Last of all is the identity.
        assert {matrices.index(block) for block in blocks} == set(range(len(values) - 1))
        np.testing.assert_allclose(values[-1], np.eye(4), atol=1e-12)
        kinds[qubits] = len(values)
        # As many as pairs that are convolved or pooled, with the gates around them.
        assert len(blocks) == qubits + qubits // 2
    assert kinds[12] == kinds[64] <= 9


@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_built_in_circuits_fuse_to_pairs(model: str) -> None:
    assert {len(block.qubits) for block in blocks_of(model, 9)} == {2}
