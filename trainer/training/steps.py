"""The compiled part of training: whole epochs in one tf.function, one reduction over all workers a step."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from trainer.model import PRECISION, same_sign
from trainer.shots import sampled_outputs
from trainer.training.batches import Shards

# float64 (steps, columns): mean squared error and sign accuracy of every global batch; where it trains,
# also the Euclidean norm of its gradient.
Measures: TypeAlias = npt.NDArray[np.float64]


class EpochRun(Protocol):
    """Runs an epoch's shards, or a part of its steps, and returns the measures of each step."""

    def __call__(self, shards: Shards, part: range | None = None) -> Measures:
        """Return float64 (steps of the part, columns); parts in their order equal the whole, bit for bit.

        Every process must cut an epoch in the same places: TensorFlow matches collectives by their turn in the loop.
        """


def training_epoch(
    strategy: tf.distribute.Strategy, model: tf_keras.Model, optimizer: tf_keras.optimizers.Optimizer
) -> EpochRun:
    """Return a function that trains on the shards of one epoch and returns the measures before each update.

    Every process passes the same shards; a replica reads its own row.
    """
    variables = model.trainable_variables
    shapes = [variable.shape for variable in variables]
    sizes = [shape.num_elements() for shape in shapes]

    def per_replica(*share: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            measures = _measures(model, *share)
            loss = measures[0]
        gradients = tape.gradient(loss, variables)
        # Gradients and measures travel together: a reduction costs a round trip, whatever its size.
        return tf.concat([*(tf.reshape(gradient, [-1]) for gradient in gradients), measures], axis=0)

    def update(flat: tf.Tensor) -> tf.Tensor:
        *summed, measures = tf.split(flat, [*sizes, 2])
        reshaped = [tf.reshape(gradient, shape) for gradient, shape in zip(summed, shapes, strict=True)]
        optimizer.apply_gradients(zip(reshaped, variables, strict=True), skip_gradients_aggregation=True)
        return tf.concat([measures, [tf.linalg.global_norm(reshaped)]], axis=0)

    return _over_steps(strategy, model, per_replica, update, columns=3)


def measuring_epoch(strategy: tf.distribute.Strategy, model: tf_keras.Model) -> EpochRun:
    """Return a function that measures the model on shards without training it."""
    return _over_steps(strategy, model, lambda *share: _measures(model, *share), lambda measures: measures, columns=2)


def same_everywhere(strategy: tf.distribute.Strategy, value: int) -> bool:
    """Whether every process of the training passes the same number; all must call this."""

    @tf.function
    def total() -> tf.Tensor:
        summed = strategy.run(lambda: _sum_over_replicas(tf.constant([value], PRECISION)))
        return strategy.experimental_local_results(summed)[0][0]

    return bool(total() == value * strategy.num_replicas_in_sync)


def _over_steps(
    strategy: tf.distribute.Strategy,
    model: tf_keras.Model,
    per_replica: Callable[..., tf.Tensor],
    update: Callable[[tf.Tensor], tf.Tensor],
    columns: int,
) -> EpochRun:
    """Return a run of an epoch whose steps are `update` of the sum over all replicas of `per_replica`."""
    alone = strategy.num_replicas_in_sync == 1

    def epoch_of(per_replica: Callable[..., tf.Tensor], *, jit_compile: bool) -> Callable[..., tf.Tensor]:
        def replica(index: tf.Tensor, arrays: list[tf.Tensor]) -> tf.Tensor:
            row = tf.distribute.get_replica_context().replica_id_in_sync_group
            own = per_replica(*(array[index, row] for array in arrays))
            return update(own if alone else _sum_over_replicas(own))

        def epoch(arrays: list[tf.Tensor], start: tf.Tensor, stop: tf.Tensor) -> tf.Tensor:
            def body(index: tf.Tensor, collected: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
                measures = strategy.run(replica, args=(index, arrays))
                # Summed over all replicas already, so the local ones are equal.
                return index + 1, collected.write(index, strategy.experimental_local_results(measures)[0])

            collected = tf.TensorArray(PRECISION, size=arrays[0].shape[0], element_shape=(columns,))
            return tf.while_loop(lambda index, _: index < stop, body, (start, collected))[1].stack()

        traced: Callable[..., tf.Tensor] = tf.function(epoch, autograph=False, jit_compile=jit_compile)
        return traced

    plain = epoch_of(per_replica, jit_compile=False)
    if not model.get_layer("quantum").compiles:
        compiled = plain
    elif alone:
        compiled = epoch_of(per_replica, jit_compile=True)
    else:
        # XLA cannot compile the reduction between replicas.
        compiled = epoch_of(tf.function(per_replica, jit_compile=True, autograph=False), jit_compile=False)

    def run(shards: Shards, part: range | None = None) -> Measures:
        steps = range(len(shards.sizes)) if part is None else part
        arrays = [tf.constant(array) for array in shards.arrays]
        # XLA cannot compile the sampling.
        epoch = compiled if shards.draw is None else plain
        measures: Measures = epoch(arrays, tf.constant(steps.start), tf.constant(steps.stop)).numpy()
        return measures[steps.start : steps.stop]

    return run


def _measures(
    model: tf_keras.Model, qubit: tf.Tensor, angle: tf.Tensor, label: tf.Tensor, weight: tf.Tensor, *draw: tf.Tensor
) -> tf.Tensor:
    if draw:
        quantum = model.get_layer("quantum")
        # Compiled by itself: XLA cannot compile the sampling.
        readouts = quantum.readouts
        if quantum.compiles:
            readouts = tf.function(readouts, jit_compile=True, autograph=False)
        outputs = sampled_outputs(model, readouts(qubit, angle), *draw)
    else:
        outputs = model((qubit, angle), training=True)
    prediction = outputs[:, 0]
    squared = tf.math.squared_difference(prediction, label)
    return tf.stack([tf.reduce_sum(weight * squared), tf.reduce_sum(weight * same_sign(label, prediction))])


def _sum_over_replicas(values: tf.Tensor) -> Any:
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)
