"""Class probabilities from readouts without trained layers."""

import tensorflow as tf
import tf_keras

from qcnn.model.array_layers import joint_kernel


class TwoClasses(tf_keras.layers.Layer):
    """Layer that maps one readout z to the probabilities of two classes, (1 - z) / 2 and (1 + z) / 2."""

    def call(self, readouts: tf.Tensor) -> tf.Tensor:
        """Return the probabilities, float64 (batch, 2), of readouts (batch, 1)."""
        return two_classes(readouts)


def two_classes(readouts: tf.Tensor) -> tf.Tensor:
    """Return the probabilities of two classes, float64 (batch, 2), of readouts (batch, 1)."""
    return tf.concat([(1 - readouts) / 2, (1 + readouts) / 2], axis=1)


class JointProbabilities(tf_keras.layers.Layer):
    """Layer that maps the products of Z of all subsets of the readouts to the probabilities of their bit strings."""

    def __init__(self, classes: int) -> None:
        super().__init__(name="prediction", dtype="float64")
        self._classes = classes

    def call(self, strings: tf.Tensor) -> tf.Tensor:
        """Return the probabilities, float64 (batch, classes), of strings (batch, 2^readouts - 1)."""
        return joint_probabilities(strings, self._classes)


def joint_probabilities(strings: tf.Tensor, outcomes: int) -> tf.Tensor:
    """Return the probabilities of the first bit strings of the readouts, float64 (batch, outcomes).

    Args:
        strings: Products of Z of the readouts in each subset, (batch, 2^readouts - 1), see `joint_sums_of`.
        outcomes: Number of bit strings. String i is i in binary, with the first readout as the most significant bit.
    """
    kernel, bias = joint_kernel(strings.shape[1], outcomes)
    return strings @ tf.constant(kernel) + tf.constant(bias)
