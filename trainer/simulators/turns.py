"""What does not fit in memory at once, in turns."""

from collections.abc import Callable

import tensorflow as tf


def in_turns(
    rows: Callable[..., tf.Tensor],
    parameters: tf.Tensor,
    inputs: tuple[tf.Tensor, ...],
    size: int,
    shape: tuple[int, ...],
) -> tf.Tensor:
    """Return rows(parameters, *inputs), one of `shape` an entry, from at most `size` entries at a time.

    Differentiable in the parameters alone.
    """
    count = inputs[0].shape[0]
    if count is not None and count <= size:
        return rows(parameters, *inputs)
    known = count is not None
    count = count if known else tf.shape(inputs[0])[0]
    groups = -(-count // size) if known else tf.maximum(-(-count // size), 1)
    size = -(-count // groups)
    padded = [tf.pad(values, [[0, groups * size - count], *[[0, 0]] * (values.shape.rank - 1)]) for values in inputs]
    # What AutoGraph cannot read it warns of, and there is nothing to rewrite.
    rows = tf.autograph.experimental.do_not_convert(rows)
    grouped = tuple(tf.reshape(values, [groups, size, *values.shape[1:]]) for values in padded)

    @tf.custom_gradient
    def run(parameters: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        every = tf.map_fn(
            lambda group: rows(parameters, *group),
            grouped,
            parallel_iterations=1,
            fn_output_signature=tf.TensorSpec((size if known else None, *shape), tf.float64),
        )

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            # Evolved once more: the states of all groups do not fit in memory.
            def add(total: tf.Tensor, group: tuple[tuple[tf.Tensor, ...], tf.Tensor]) -> tf.Tensor:
                with tf.GradientTape() as tape:
                    tape.watch(parameters)
                    outputs = rows(parameters, *group[0])
                return total + tape.gradient(outputs, parameters, group[1])

            return tf.foldl(add, (grouped, upstream), tf.zeros_like(parameters), parallel_iterations=1)

        return every, gradient

    every = run(parameters)
    return tf.reshape(every, [groups * size, *every.shape[2:]])[:count]
