"""Readouts that are estimated from measurement shots."""

from collections.abc import Mapping, Sequence

import tensorflow as tf
import tf_keras

from qcnn.model.array_layers import joint_kernel
from qcnn.model.network import PRECISION, model_outputs
from qcnn.model.probabilities import joint_probabilities


def sample(expectations: tf.Tensor, draw: tf.Tensor) -> tf.Tensor:
    """Estimate Pauli strings from shots, float64 (samples, strings) like `expectations`.

    An estimate is 2 k / shots - 1 with k binomial. Each string is sampled from its marginal distribution: the mean is
    the expectation value E and the variance (1 - E^2) / shots. Unlike in a real measurement, strings of one sample are
    not correlated.

    The gradient is that of the expectation values, which is exact for equal upstream gradients. With a linear head the
    mean prediction is exact, so the mean gradient is the exact gradient of the squared error in the circuit parameters.
    With a nonlinear head it deviates by the order of 1 / shots.
    """
    shots, before = tf.cast(draw[0], PRECISION), draw[1]
    # Simulators compute in float32, so an expectation value may be slightly outside [-1, 1].
    probability = tf.clip_by_value((1 + expectations) / 2, 0, 1)
    # TensorFlow samples by index in the output. Samples of preceding replicas take their indices with probability 0,
    # which is fast.
    others = tf.zeros([before, tf.shape(expectations)[1]], PRECISION)
    probabilities = tf.concat([others, probability], axis=0)
    ones = tf.random.stateless_binomial(tf.shape(probabilities), draw[2:], shots, probabilities, PRECISION)
    estimates = 2 * ones[before:] / shots - 1
    return expectations + tf.stop_gradient(estimates - expectations)


def sample_jointly(strings: tf.Tensor, draw: tf.Tensor) -> tf.Tensor:
    """Estimate the products of Z of all subsets of readouts from shots that measure all readouts.

    The counts of the bit strings are multinomial, drawn bit by bit: each count is divided into those with the next bit
    0 and 1. The gradient is that of the expectation values, as in `sample`.

    Args:
        strings: Expectation values, float64 (samples, 2^readouts - 1), see `joint_sums_of`.
        draw: Shots, index of the first sample and seed, int64 (4,).
    """
    before, outcomes = draw[1], strings.shape[1] + 1
    # Simulators compute in float32, so a probability may be slightly below 0.
    probabilities = tf.maximum(joint_probabilities(strings, outcomes), 0)
    others = tf.zeros([before, outcomes], PRECISION)
    probabilities = tf.concat([others, probabilities], axis=0)
    count = tf.shape(probabilities)[0]
    counts = tf.fill([count, 1], tf.cast(draw[0], PRECISION))
    for bit in range((outcomes - 1).bit_length()):
        pairs = tf.reduce_sum(tf.reshape(probabilities, [count, 2 ** (bit + 1), -1]), axis=2)
        pairs = tf.reshape(pairs, [count, -1, 2])
        zeros = tf.math.divide_no_nan(pairs[:, :, 0], tf.reduce_sum(pairs, axis=2))
        seed = tf.random.experimental.stateless_fold_in(draw[2:], bit)
        first = tf.random.stateless_binomial(tf.shape(zeros), seed, counts, zeros, PRECISION)
        counts = tf.reshape(tf.stack([first, counts - first], axis=2), [count, -1])
    kernel, _ = joint_kernel(outcomes - 1, outcomes)
    estimates = counts[before:] @ tf.constant(outcomes * kernel.T) / tf.cast(draw[0], PRECISION)
    return strings + tf.stop_gradient(estimates - strings)


def _sample(model: tf_keras.Model, expectations: tf.Tensor, draw: tf.Tensor) -> tf.Tensor:
    is_joint = model.get_layer("quantum").simulator.network.joint
    return sample_jointly(expectations, draw) if is_joint else sample(expectations, draw)


def sampled_outputs(
    model: tf_keras.Model,
    strings: tuple[tf.Tensor, tf.Tensor],
    draw: tf.Tensor,
    weights: Sequence[tf.Tensor] | None = None,
) -> tf.Tensor:
    """Return the predictions with sampled readouts, float64 (samples, 1) or (samples, classes).

    The values that center the readouts are exact: they are the same for all samples, so hardware could measure them
    once with many shots.

    Args:
        model: Model of the experiment.
        strings: Result of `QuantumLayer.strings`.
        draw: Shots, index of the first sample and seed, int64 (4,).
        weights: Weights in the order of the trainable variables, or None for those of the model.
    """
    expectations, unexcited = strings
    return model_outputs(model, _sample(model, expectations, draw) - unexcited, weights)


def shifted_outputs(
    model: tf_keras.Model, inputs: Mapping[str, tf.Tensor], draw: tf.Tensor, weights: Sequence[tf.Tensor]
) -> tf.Tensor:
    """Return the predictions with sampled readouts and a parameter-shift gradient, float64 (samples, outputs).

    Readouts of shifted circuits are sampled, too, with seeds from the batch seed and the index of the shifted circuit.

    Args:
        model: Model of the experiment.
        inputs: Model inputs by name, each (samples, ...).
        draw: Shots, index of the first sample and seed, int64 (4,).
        weights: Weights in the order of the trainable variables.
    """

    def estimate(values: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        seed = tf.cast(tf.random.experimental.stateless_fold_in(draw[2:], number), draw.dtype)
        return _sample(model, values, tf.concat([draw[:2], tf.where(number > 0, seed, draw[2:])], axis=0))

    values, unexcited = model.get_layer("quantum").estimates(inputs, weights[0], estimate)
    return model_outputs(model, values - unexcited, weights)
