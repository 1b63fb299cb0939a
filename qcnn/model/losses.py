"""Loss of each sample, and whether its prediction is correct, for every type of prediction."""

import tensorflow as tf

from qcnn.model.array_losses import MIN_PROBABILITY
from qcnn.model.signs import signs_match


def losses(label: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """Return the loss of each sample, (samples,): its squared error, or -log of the probability of its class.

    Args:
        label: Labels, float64 (samples,), with the number of the class if outputs are probabilities.
        outputs: Predictions, float64 (samples, 1), or probabilities of the classes, (samples, classes).
    """
    if outputs.shape[1] == 1:
        return tf.math.squared_difference(outputs[:, 0], label)
    return -tf.math.log(tf.maximum(_of_label(label, outputs), MIN_PROBABILITY))


def correct(label: tf.Tensor, outputs: tf.Tensor, rounding: float) -> tf.Tensor:
    """Return where predictions are correct, boolean (samples,).

    A class that is more probable than the others by less than `rounding` counts as wrong, as a prediction without a
    sign.

    Args:
        label: Labels, as in `losses`.
        outputs: Predictions or probabilities, as in `losses`.
        rounding: Bound on their rounding error.
    """
    if outputs.shape[1] == 1:
        return signs_match(label, outputs[:, 0], rounding)
    best = tf.math.top_k(outputs, 2).values
    is_best = tf.equal(tf.argmax(outputs, axis=1), tf.cast(label, tf.int64))
    return is_best & (best[:, 0] - best[:, 1] >= rounding)


def _of_label(label: tf.Tensor, probabilities: tf.Tensor) -> tf.Tensor:
    """Return the probability of the class of each sample, (samples,)."""
    is_label = tf.one_hot(tf.cast(label, tf.int32), probabilities.shape[1], dtype=probabilities.dtype)
    return tf.reduce_sum(is_label * probabilities, axis=1)
