"""Rows of a table, with a gradient that is fast where it is compiled."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import tensorflow as tf


def chosen_rows(table: tf.Tensor, places: npt.NDArray[np.int32], constant: int) -> tf.Tensor:
    """Return table[places], (places, columns), where few places are the same but for a row that is constant.

    The gradient gathers what the uses of each row were given; to the constant row it is zero.
    """
    uses: list[list[int]] = [[] for _ in range(table.shape[0])]
    for use, place in enumerate(places):
        if place != constant:
            uses[place].append(use)
    most = max(1, *map(len, uses))
    given_by = np.array([[*used, *[len(places)] * (most - len(used))] for used in uses], np.int32)

    @tf.custom_gradient
    def gather(table: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            with_nothing = tf.pad(upstream, [[0, 1], [0, 0]])
            return tf.reduce_sum(tf.gather(with_nothing, given_by), axis=1)

        return tf.gather(table, places), gradient

    return gather(table)


def permuted(values: tf.Tensor, places: npt.NDArray[np.int32]) -> tf.Tensor:
    """Return values[places], (count,), where every place is there once."""

    @tf.custom_gradient
    def gather(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return tf.gather(values, places), lambda upstream: tf.gather(upstream, np.argsort(places).astype(np.int32))

    return gather(values)


def rows_at(table: tf.Tensor, places: tf.Tensor | npt.NDArray[np.int32]) -> tf.Tensor:
    """Return table[places], (places, columns).

    The gradient is a matrix product: that of tf.gather, compiled, adds up one row after another.
    """

    @tf.custom_gradient
    def gather(table: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            chosen = tf.one_hot(places, table.shape[0], dtype=table.dtype)
            return tf.matmul(chosen, upstream, transpose_a=True)

        return tf.gather(table, places), gradient

    return gather(table)
