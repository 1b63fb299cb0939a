"""The compiled part of training: whole epochs in one tf.function, one reduction over all workers an update."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from qcnn.model.batches import Shards
from qcnn.model.network import PRECISION, model_outputs, sampled_outputs, shifted_outputs, signs_match

# float64 (steps, columns): mean squared error and sign accuracy of every global batch; where it trains,
# also the Euclidean norm of its gradient, and where workers are not in step the updates of others since it was read.
Measures: TypeAlias = npt.NDArray[np.float64]


class EpochRunner(Protocol):
    """Runs an epoch's shards, or a part of its steps, and returns the measures of each step."""

    def __call__(self, shards: Shards, part: range | None = None) -> Measures:
        """Return float64 (steps of the part, columns); parts in their order equal the whole, bit for bit.

        Every process must cut an epoch in the same places: TensorFlow matches collectives by their turn in the loop.
        """


class CompiledEpoch:
    """An `EpochRunner` that XLA compiles, or where it cannot, a plain function of TensorFlow's."""

    def __init__(self, plain: Callable[..., tf.Tensor], compiled: Callable[..., tf.Tensor]) -> None:
        self._plain, self._compiled = plain, compiled

    def __call__(self, shards: Shards, part: range | None = None) -> Measures:
        """Run as `EpochRunner` says; a part without steps compiles the program and changes nothing."""
        steps = range(len(shards.sizes)) if part is None else part
        measures: Measures = self._program(shards)(*_arguments(shards, steps)).numpy()
        return measures[steps.start : steps.stop]

    def trace(self, shards: Shards) -> None:
        """Trace the program of such shards, which is compiled when it first runs."""
        self._program(shards).get_concrete_function(*_arguments(shards, range(0)))

    def _program(self, shards: Shards) -> Any:
        # XLA cannot compile the sampling.
        return self._compiled if shards.draw is None else self._plain


def _arguments(shards: Shards, steps: range) -> tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]:
    arrays = {name: tf.constant(array) for name, array in shards.arrays.items()}
    return arrays, tf.constant(steps.start), tf.constant(steps.stop)


def training_epoch(
    strategy: tf.distribute.Strategy, model: tf_keras.Model, optimizer: tf_keras.optimizers.Optimizer
) -> CompiledEpoch:
    """Return a function that trains on the shards of one epoch and returns the measures before each update.

    Every process passes the same shards; a replica reads its own row.
    """
    variables = model.trainable_variables
    shapes = [variable.shape for variable in variables]
    sizes = [shape.num_elements() for shape in shapes]
    per_replica = gradient_of(model)

    def update(flat: tf.Tensor) -> tf.Tensor:
        *summed, measures = tf.split(flat, [*sizes, 2])
        reshaped = [tf.reshape(gradient, shape) for gradient, shape in zip(summed, shapes, strict=True)]
        optimizer.apply_gradients(zip(reshaped, variables, strict=True), skip_gradients_aggregation=True)
        return tf.concat([measures, [tf.linalg.global_norm(reshaped)]], axis=0)

    alone = strategy.num_replicas_in_sync == 1
    # Its replicas share one copy of the variables, which none of them can update by itself.
    central = isinstance(strategy, tf.distribute.experimental.CentralStorageStrategy)

    def epoch_of(per_replica: Callable[..., tf.Tensor], *, jit_compile: bool) -> Callable[..., tf.Tensor]:
        def replica(index: tf.Tensor, arrays: dict[str, tf.Tensor]) -> tf.Tensor:
            share = {name: _of_step(array, index)[_row(array)] for name, array in arrays.items()}
            own = per_replica(_values(variables), **share)
            return own if central else update(own if alone else _sum_over_replicas(own))

        def epoch(arrays: dict[str, tf.Tensor], start: tf.Tensor, stop: tf.Tensor) -> tf.Tensor:
            def step(index: tf.Tensor) -> tf.Tensor:
                found = strategy.run(replica, args=(index, arrays))
                if central:
                    return update(strategy.reduce(tf.distribute.ReduceOp.SUM, found, axis=None))
                return _first_local(strategy, found)

            return _over_steps(step, arrays, start, stop, columns=3)

        return _traced(epoch, jit_compile=jit_compile)

    plain = epoch_of(per_replica, jit_compile=False)
    if not model.get_layer("quantum").compiles:
        return CompiledEpoch(plain, plain)
    if alone and not central:
        return CompiledEpoch(plain, epoch_of(per_replica, jit_compile=True))
    # XLA cannot compile the reduction between replicas.
    return CompiledEpoch(plain, epoch_of(_traced(per_replica, jit_compile=True), jit_compile=False))


def measuring_epoch(strategy: tf.distribute.Strategy, model: tf_keras.Model) -> CompiledEpoch:
    """Return a function that measures the model on shards without training it.

    A replica's steps are one compiled loop, which computes once what depends on the weights alone, and all share one
    reduction.
    """
    alone = strategy.num_replicas_in_sync == 1
    variables = model.trainable_variables

    def own_steps(
        weights: Sequence[tf.Tensor], arrays: dict[str, tf.Tensor], start: tf.Tensor, stop: tf.Tensor
    ) -> tf.Tensor:
        def step(index: tf.Tensor) -> tf.Tensor:
            return _measures(model, weights, **{name: _of_step(array, index) for name, array in arrays.items()})

        return _over_steps(step, arrays, start, stop, columns=2)

    def epoch_of(own_steps: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
        def replica(arrays: dict[str, tf.Tensor], start: tf.Tensor, stop: tf.Tensor) -> tf.Tensor:
            share = {name: array[:, _row(array)] for name, array in arrays.items()}
            return own_steps(_values(variables), share, start, stop)

        def epoch(*arguments: Any) -> tf.Tensor:
            found = strategy.run(replica, args=arguments)
            if alone:
                return _first_local(strategy, found)
            return strategy.reduce(tf.distribute.ReduceOp.SUM, found, axis=None)

        return _traced(epoch, jit_compile=False)

    plain = epoch_of(own_steps)
    compiles = model.get_layer("quantum").compiles
    return CompiledEpoch(plain, epoch_of(_traced(own_steps, jit_compile=True)) if compiles else plain)


def gradient_of(model: tf_keras.Model) -> Callable[..., tf.Tensor]:
    """Return a function of a replica's weights and its share of a step.

    It returns the gradient of the loss, flat in the order of the trainable variables, and the two measures.
    """

    def gradient(weights: Sequence[tf.Tensor], **share: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            measures = _measures(model, weights, **share)
            loss = measures[0]
        gradients = tape.gradient(loss, weights)
        # Gradients and measures travel together: a reduction costs a round trip, whatever its size.
        return tf.concat([*(tf.reshape(each, [-1]) for each in gradients), measures], axis=0)

    return gradient


def same_everywhere(strategy: tf.distribute.Strategy, value: int) -> bool:
    """Whether every process of the training passes the same number; all must call this."""

    @tf.function
    def total() -> tf.Tensor:
        summed = strategy.run(lambda: _sum_over_replicas(tf.constant([value], PRECISION)))
        return strategy.experimental_local_results(summed)[0][0]

    return bool(total() == value * strategy.num_replicas_in_sync)


def _over_steps(
    step: Callable[[tf.Tensor], tf.Tensor],
    arrays: dict[str, tf.Tensor],
    start: tf.Tensor,
    stop: tf.Tensor,
    columns: int,
) -> tf.Tensor:
    """Return the measures of the steps from start to stop, each in its place, (steps, columns)."""

    def body(index: tf.Tensor, collected: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        return index + 1, collected.write(index, step(index))

    collected = tf.TensorArray(PRECISION, size=arrays["label"].shape[0], element_shape=(columns,))
    return tf.while_loop(lambda index, _: index < stop, body, (start, collected))[1].stack()


def _of_step(array: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Return what an epoch's array, (steps, ...), holds for a step; a single entry is every step's."""
    return array[index if array.shape[0] > 1 else 0]


def _row(array: tf.Tensor) -> tf.Tensor | int:
    """Return which row of an epoch's array, (steps, rows, ...), is this replica's; a single one is every replica's."""
    return tf.distribute.get_replica_context().replica_id_in_sync_group if array.shape[1] > 1 else 0


def _first_local(strategy: tf.distribute.Strategy, values: Any) -> tf.Tensor:
    """Return what the first replica of this process holds; summed over all of them it is what each holds."""
    return strategy.experimental_local_results(values)[0]


def _traced(function: Callable[..., tf.Tensor], *, jit_compile: bool) -> Callable[..., tf.Tensor]:
    traced: Callable[..., tf.Tensor] = tf.function(function, autograph=False, jit_compile=jit_compile)
    return traced


def _values(variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
    """Return the values of variables, which a compiled program takes from wherever these are kept."""
    return [tf.convert_to_tensor(variable) for variable in variables]


def _measures(
    model: tf_keras.Model,
    weights: Sequence[tf.Tensor],
    label: tf.Tensor,
    weight: tf.Tensor,
    draw: tf.Tensor | None = None,
    own: tf.Tensor | None = None,
    **inputs: tf.Tensor,
) -> tf.Tensor:
    quantum = model.get_layer("quantum")
    if draw is not None and quantum.shifted:
        outputs = shifted_outputs(model, inputs, draw, weights)
    elif draw is not None:
        # Compiled by itself: XLA cannot compile the sampling.
        readouts = quantum.readouts
        if quantum.compiles:
            readouts = tf.function(readouts, jit_compile=True, autograph=False)
        outputs = sampled_outputs(model, readouts(inputs, None, weights[0]), draw, weights)
    else:
        values, unturned = quantum.readouts(inputs, own, weights[0])
        outputs = model_outputs(model, values - unturned, weights)
    if own is not None:
        weight *= tf.cast(tf.reduce_any(tf.equal(inputs["qubit"][:, None], own), axis=1), PRECISION)
    prediction = outputs[:, 0]
    squared = tf.math.squared_difference(prediction, label)
    return tf.stack([tf.reduce_sum(weight * squared), tf.reduce_sum(weight * signs_match(label, prediction))])


def _sum_over_replicas(values: tf.Tensor) -> Any:
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)
