"""Matrices of blocks are those of their gates, each once."""

import numpy as np
import tensorflow as tf
from hypothesis import given

from qcnn.circuits import circuits
from qcnn.circuits.circuits import Ansatz
from qcnn.simulators.block_matrices import Matrices
from qcnn.simulators.structure.gate_fusion import Block, fuse
from qcnn.simulators.structure.gates import read_network
from tests.qcnn.simulators.drawn import ansatzes, assert_equal_up_to_phase, repeatable, unitary


def blocks_of(model: str, qubits: int) -> list[Block]:
    ring = circuits.ring(qubits)
    return fuse(read_network(circuits.build(model, qubits), ring).gates)


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
