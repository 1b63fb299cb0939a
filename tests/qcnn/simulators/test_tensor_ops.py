"""Rows of a table and their gradient are those of tf.gather."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from qcnn.simulators.tensor_ops import chosen_rows, fixed_rows, permuted, rows_at


@pytest.mark.parametrize("rows_at", [rows_at, fixed_rows])
def test_rows_and_their_gradient_are_those_of_gather(rows_at: Callable[..., tf.Tensor]) -> None:
    random = np.random.default_rng(0)
    table, places = tf.constant(random.normal(size=(5, 3))), np.array([4, 0, 4, 2], np.int32)
    upstream = tf.constant(random.normal(size=(4, 3)))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(table)
        found, expected = rows_at(table, places), tf.gather(table, places)
    np.testing.assert_array_equal(found, expected)
    gradient, slices = (tape.gradient(rows, table, upstream) for rows in (found, expected))
    np.testing.assert_allclose(gradient, tf.convert_to_tensor(slices), rtol=1e-12)


def test_arrays_of_a_program_are_its_inputs_and_not_its_constants() -> None:
    places = np.arange(3000, dtype=np.int32)

    @tf.function
    def traced(table: tf.Tensor) -> tf.Tensor:
        return fixed_rows(table, places) + chosen_rows(table, places, 0) + permuted(table[:, 0], places)[:, None]

    graph = traced.get_concrete_function(tf.TensorSpec((3000, 1), tf.float64)).graph.as_graph_def()
    assert max(node.ByteSize() for node in graph.node) < 10_000
