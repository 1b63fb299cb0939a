"""Readouts as hardware gives them: estimated from a number of shots, without bias, the same on any number of workers.

A draw is int64 (4,): the shots, how many samples of the global batch come before these, and the batch's seed (2
words). An estimate is a function of these, the sample's place in the batch, the readout and its expectation value
alone.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf
import tf_keras

from qcnn.trainer.model import PRECISION, outputs_of


def sample(expectations: tf.Tensor, draw: tf.Tensor) -> tf.Tensor:
    """Estimate Z on the readouts from shots, float64 (samples, readouts) as `expectations` are.

    An estimate is 2 k / shots - 1 with k binomial, each readout from its own marginal: its mean is the expectation
    value E and its variance (1 - E^2) / shots, but readouts of one sample are not correlated as those of one
    measurement are.

    The gradient is that of the expectation values: exact for equal upstream. With a linear head, whose prediction's
    mean is the exact one, its mean is the gradient of the exact squared error in the quantum parameters; with a
    non-linear one it is off by the order of 1 / shots.
    """
    shots, before = tf.cast(draw[0], PRECISION), draw[1]
    # Simulators compute in float32: an expectation value may be just outside [-1, 1].
    probability = tf.clip_by_value((1 + expectations) / 2, 0, 1)
    # TensorFlow draws by place in the output: samples of other replicas hold theirs, at probability 0, which is quick.
    others = tf.zeros([before, tf.shape(expectations)[1]], PRECISION)
    probabilities = tf.concat([others, probability], axis=0)
    ones = tf.random.stateless_binomial(tf.shape(probabilities), draw[2:], shots, probabilities, PRECISION)
    estimates = 2 * ones[before:] / shots - 1
    return expectations + tf.stop_gradient(estimates - expectations)


def sampled_outputs(
    model: tf_keras.Model,
    readouts: tuple[tf.Tensor, tf.Tensor],
    draw: tf.Tensor,
    weights: Sequence[tf.Tensor] | None = None,
) -> tf.Tensor:
    """Return what the model predicts, float64 (samples, 1), from what its quantum layer's `readouts` returned.

    The readouts of the samples are drawn. What is subtracted to centre them is not: it is the same for all samples,
    and hardware would measure it once for them all, as often as need be.
    """
    expectations, unturned = readouts
    return outputs_of(model, sample(expectations, draw) - unturned, weights)


def shifted_outputs(
    model: tf_keras.Model, inputs: Mapping[str, tf.Tensor], draw: tf.Tensor, weights: Sequence[tf.Tensor]
) -> tf.Tensor:
    """Return what `sampled_outputs` does of samples, by name, where the gradient is made of shifted circuits.

    Those are drawn too, from seeds that follow from the batch's and the number of the shifted circuit.
    """

    def estimate(values: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        seed = tf.cast(tf.random.experimental.stateless_fold_in(draw[2:], number), draw.dtype)
        return sample(values, tf.concat([draw[:2], tf.where(number > 0, seed, draw[2:])], axis=0))

    values, unturned = model.get_layer("quantum").estimates(inputs, weights[0], estimate)
    return outputs_of(model, values - unturned, weights)
