"""Compiled epochs: one tf.function per epoch, with one all-reduce over workers per update."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from qcnn.model.batches import Shards
from qcnn.model.losses import correct, losses
from qcnn.model.network import PRECISION, model_outputs
from qcnn.model.shots import sampled_outputs, shifted_outputs

# float64 (steps, columns): loss and accuracy of every global batch. Training adds the Euclidean norm of the gradient,
# and asynchronous training the number of updates by other workers since the weights were read.
Measures: TypeAlias = npt.NDArray[np.float64]


class EpochRunner(Protocol):
    """Function that runs the steps of an epoch, or a part of them, and returns their measures."""

    def __call__(self, shards: Shards, part: range | None = None) -> Measures:
        """Return the measures, float64 (steps of the part, columns).

        Consecutive parts give the same bits as the whole epoch. Every process must split an epoch into the same parts,
        because TensorFlow matches collectives by their order in the loop.
        """


class CompiledEpoch:
    """`EpochRunner` that is compiled by XLA, or is a plain tf.function if XLA cannot compile it."""

    def __init__(self, plain: Any, compiled: Any) -> None:
        self._plain, self._compiled = plain, compiled

    def __call__(self, shards: Shards, part: range | None = None) -> Measures:
        """Return the measures as `EpochRunner` does.

        A part without steps compiles the program and changes nothing.
        """
        steps = range(len(shards.sizes)) if part is None else part
        measures: Measures = self._program(shards)(*_arguments(shards, steps)).numpy()
        return measures[steps.start : steps.stop]

    @property
    def compiled(self) -> int:
        """Number of programs, one for each shape of shards."""
        return sum(each.experimental_get_tracing_count() for each in {self._plain, self._compiled})

    def trace(self, shards: Shards) -> None:
        """Trace the program for shards of these shapes, before its first call compiles it."""
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
    """Return a function that trains on the shards of an epoch and returns the measures before each update.

    Every process must pass the same shards, of which a replica reads its row.

    Args:
        strategy: Distribution strategy, in whose scope model and optimizer were created.
        model: Model to train.
        optimizer: Optimizer with built variables.
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
    # Replicas of this strategy share one copy of the variables, which no single replica can update.
    central = isinstance(strategy, tf.distribute.experimental.CentralStorageStrategy)

    def epoch_of(per_replica: Callable[..., tf.Tensor], *, jit_compile: bool) -> Callable[..., tf.Tensor]:
        def replica(index: tf.Tensor, arrays: dict[str, tf.Tensor]) -> tf.Tensor:
            share = {name: _of_step(array, index)[_row(array)] for name, array in arrays.items()}
            own = per_replica(_values(variables), **share)
            return own if central else update(own if alone else _sum_over_replicas(own))

        def epoch(arrays: dict[str, tf.Tensor], start: tf.Tensor, stop: tf.Tensor) -> tf.Tensor:
            def step(index: tf.Tensor) -> tf.Tensor:
                results = strategy.run(replica, args=(index, arrays))
                if central:
                    return update(strategy.reduce(tf.distribute.ReduceOp.SUM, results, axis=None))
                return _first_local(strategy, results)

            return _over_steps(step, arrays, start, stop, columns=3)

        return _trace(epoch, jit_compile=jit_compile)

    plain = epoch_of(per_replica, jit_compile=False)
    if not model.get_layer("quantum").compiles:
        return CompiledEpoch(plain, plain)
    if alone and not central:
        return CompiledEpoch(plain, epoch_of(per_replica, jit_compile=True))
    # XLA cannot compile the reduction between replicas.
    return CompiledEpoch(plain, epoch_of(_trace(per_replica, jit_compile=True), jit_compile=False))


def measuring_epoch(strategy: tf.distribute.Strategy, model: tf_keras.Model) -> CompiledEpoch:
    """Return a function that returns the measures of the model on shards without training it.

    The steps of a replica are one compiled loop, which computes values that depend only on the weights once. All steps
    share one all-reduce.
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
            results = strategy.run(replica, args=arguments)
            if alone:
                return _first_local(strategy, results)
            return strategy.reduce(tf.distribute.ReduceOp.SUM, results, axis=None)

        return _trace(epoch, jit_compile=False)

    plain = epoch_of(own_steps)
    compiles = model.get_layer("quantum").compiles
    return CompiledEpoch(plain, epoch_of(_trace(own_steps, jit_compile=True)) if compiles else plain)


def gradient_of(model: tf_keras.Model) -> Callable[..., tf.Tensor]:
    """Return a function that returns gradient and measures of a replica's shard, (parameters + 2,).

    Its arguments are the weights and the arrays of the shard. The gradient is flat, in the order of the trainable
    variables.
    """

    def gradient(weights: Sequence[tf.Tensor], **share: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            measures = _measures(model, weights, **share)
            loss = measures[0]
        gradients = tape.gradient(loss, weights)
        # A circuit without gates does not use its array of parameters, so that this one has no gradient.
        flat = [
            tf.reshape(gradient, [-1])
            for weight, gradient in zip(weights, gradients, strict=True)
            if weight.shape.num_elements() != 0
        ]
        # One tensor for gradients and measures, because every reduction takes a round trip.
        return tf.concat([*flat, measures], axis=0)

    return gradient


def same_everywhere(strategy: tf.distribute.Strategy, value: int) -> bool:
    """Return whether every process passes the same number.

    Every process must call this function.
    """
    total = _sum_of_processes(strategy)(tf.constant([value], PRECISION))
    return bool(total == value * strategy.num_replicas_in_sync)


# TensorFlow warns about functions that are traced for each call.
@functools.lru_cache(maxsize=1)
def _sum_of_processes(strategy: tf.distribute.Strategy) -> Callable[[tf.Tensor], tf.Tensor]:
    @tf.function(autograph=False)
    def total(values: tf.Tensor) -> tf.Tensor:
        # A reduction requires the device of its operand, which an argument does not have.
        summed = strategy.run(lambda: _sum_over_replicas(tf.identity(values)))
        return strategy.experimental_local_results(summed)[0][0]

    traced: Callable[[tf.Tensor], tf.Tensor] = total
    return traced


def _over_steps(
    step: Callable[[tf.Tensor], tf.Tensor],
    arrays: dict[str, tf.Tensor],
    start: tf.Tensor,
    stop: tf.Tensor,
    columns: int,
) -> tf.Tensor:
    """Return the measures of the steps from start to stop at their indices, (steps, columns)."""

    def body(index: tf.Tensor, collected: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        return index + 1, collected.write(index, step(index))

    collected = tf.TensorArray(PRECISION, size=arrays["label"].shape[0], element_shape=(columns,))
    return tf.while_loop(lambda index, _: index < stop, body, (start, collected))[1].stack()


def _of_step(array: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Return the entry of an array (steps, ...) for a step, where a single entry is for all steps."""
    return array[index if array.shape[0] > 1 else 0]


def _row(array: tf.Tensor) -> tf.Tensor | int:
    """Return the row of this replica in an array (steps, rows, ...), where a single row is for all."""
    return tf.distribute.get_replica_context().replica_id_in_sync_group if array.shape[1] > 1 else 0


def _first_local(strategy: tf.distribute.Strategy, values: Any) -> tf.Tensor:
    """Return the value of the first local replica, which after an all-reduce is that of every replica."""
    return strategy.experimental_local_results(values)[0]


def _trace(function: Callable[..., tf.Tensor], *, jit_compile: bool) -> Callable[..., tf.Tensor]:
    traced: Callable[..., tf.Tensor] = tf.function(function, autograph=False, jit_compile=jit_compile)
    return traced


def _values(variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
    """Return the values of variables, so that a compiled program does not depend on their device."""
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
        # Compiled separately, because XLA cannot compile the sampling.
        strings = quantum.strings
        if quantum.compiles:
            strings = tf.function(strings, jit_compile=True, autograph=False)
        outputs = sampled_outputs(model, strings(inputs, None, weights[0]), draw, weights)
    else:
        values, unexcited = quantum.strings(inputs, own, weights[0])
        outputs = model_outputs(model, values - unexcited, weights)
    if own is not None:
        weight *= tf.cast(tf.reduce_any(tf.equal(inputs["qubit"][:, None], own), axis=1), PRECISION)
    matching = tf.cast(correct(label, outputs, quantum.rounding if draw is None else 0.0), PRECISION)
    return tf.stack([tf.reduce_sum(weight * losses(label, outputs)), tf.reduce_sum(weight * matching)])


def _sum_over_replicas(values: tf.Tensor) -> Any:
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)
