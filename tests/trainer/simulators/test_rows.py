"""Rows of a table and their gradient are those of tf.gather."""

import numpy as np
import tensorflow as tf

from trainer.simulators.rows import rows_at


def test_rows_and_their_gradient_are_those_of_gather() -> None:
    random = np.random.default_rng(0)
    table, places = tf.constant(random.normal(size=(5, 3))), tf.constant([4, 0, 4, 2])
    upstream = tf.constant(random.normal(size=(4, 3)))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(table)
        found, expected = rows_at(table, places), tf.gather(table, places)
    np.testing.assert_array_equal(found, expected)
    gradient, slices = (tape.gradient(rows, table, upstream) for rows in (found, expected))
    np.testing.assert_allclose(gradient, tf.convert_to_tensor(slices), rtol=1e-12)
