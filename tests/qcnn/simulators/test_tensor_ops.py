"""Gathers and block matrices, compared with tf.gather and Cirq."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given

from qcnn.circuits import circuits
from qcnn.circuits.circuits import Ansatz
from qcnn.simulators.structure.gate_fusion import Block, fuse
from qcnn.simulators.structure.gates import read_network
from qcnn.simulators.tensor_ops import BlockUnitaries, fixed_rows, gather_rows, gather_sparse, permute
from tests.qcnn.simulators.random_circuits import ansatzes, assert_equal_up_to_phase, repeatable, unitary


@pytest.mark.parametrize("rows_at", [gather_rows, fixed_rows])
def test_gather_rows_and_gradient_equal_tf_gather(rows_at: Callable[..., tf.Tensor]) -> None:
    random = np.random.default_rng(0)
    table, places = tf.constant(random.normal(size=(5, 3))), np.array([4, 0, 4, 2], np.int32)
    upstream = tf.constant(random.normal(size=(4, 3)))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(table)
        found, expected = rows_at(table, places), tf.gather(table, places)
    np.testing.assert_array_equal(found, expected)
    gradient, slices = (tape.gradient(rows, table, upstream) for rows in (found, expected))
    np.testing.assert_allclose(gradient, tf.convert_to_tensor(slices), rtol=1e-12)


def test_as_input_arrays_are_not_graph_constants() -> None:
    places = np.arange(3000, dtype=np.int32)

    @tf.function
    def traced(table: tf.Tensor) -> tf.Tensor:
        return fixed_rows(table, places) + gather_sparse(table, places, 0) + permute(table[:, 0], places)[:, None]

    graph = traced.get_concrete_function(tf.TensorSpec((3000, 1), tf.float64)).graph.as_graph_def()
    assert max(node.ByteSize() for node in graph.node) < 10_000


def blocks_of(model: str, qubits: int) -> list[Block]:
    ring = circuits.ring(qubits)
    return fuse(read_network(circuits.build(model, qubits), ring).gates)


@given(ansatzes(least=4, most=5))
@repeatable
def test_block_unitaries_equal_cirq(drawn: tuple[Ansatz, int]) -> None:
    """One block of all gates on the whole ring, with any order of qubits within the gates."""
    ansatz, qubits = drawn
    gates = read_network(ansatz, circuits.ring(qubits)).gates
    block = Block(tuple(range(qubits)), gates)
    values = np.random.default_rng(0).uniform(-2, 2, len(ansatz.symbols))
    matrices = BlockUnitaries([block], qubits, len(values))
    actual = matrices(tf.constant(values, tf.float64))[matrices.index(block)].numpy()
    assert_equal_up_to_phase(actual, unitary(ansatz.circuit, ansatz.symbols, values, qubits))


def test_block_unitaries_share_matrices_of_equal_blocks() -> None:
    kinds = {}
    for qubits in (12, 64):
        blocks = blocks_of("hybrid", qubits)
        matrices = BlockUnitaries(blocks, 2, 21)
        values = matrices(tf.constant(np.random.default_rng(0).uniform(0, 2, 21)))
        # The last matrix is the identity.
        assert {matrices.index(block) for block in blocks} == set(range(len(values) - 1))
        np.testing.assert_allclose(values[-1], np.eye(4), atol=1e-12)
        kinds[qubits] = len(values)
        # One block per convolved or pooled pair, with the gates around it.
        assert len(blocks) == qubits + qubits // 2
    assert kinds[12] == kinds[64] <= 9
