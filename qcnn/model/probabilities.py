"""Class probabilities from readouts without trained layers."""

import tensorflow as tf
import tf_keras

from qcnn.model.array_layers import Dense, joint_kernel, probability_layers, softmax_layers
from qcnn.model.array_losses import MIN_PROBABILITY


class TwoClasses(tf_keras.layers.Layer):
    """Layer that maps one readout z to the probabilities of two classes, (1 - z) / 2 and (1 + z) / 2."""

    def call(self, readouts: tf.Tensor) -> tf.Tensor:
        """Return the probabilities, float64 (batch, 2), of readouts (batch, 1)."""
        return two_classes(readouts)


def two_classes(readouts: tf.Tensor) -> tf.Tensor:
    """Return the probabilities of two classes, float64 (batch, 2), of readouts (batch, 1)."""
    return tf.concat([(1 - readouts) / 2, (1 + readouts) / 2], axis=1)


class JointProbabilities(tf_keras.layers.Layer):
    """Layer that maps the products of Z of all subsets of the readouts to the probabilities of their bit strings.

    With a temperature T other than 1, the probabilities p of all bit strings become p^(1/T), divided by their sum.
    """

    def __init__(self, classes: int, temperature: float) -> None:
        super().__init__(name="prediction", dtype="float64")
        self._classes, self._temperature = classes, temperature

    def call(self, strings: tf.Tensor) -> tf.Tensor:
        """Return the probabilities, float64 (batch, classes), of strings (batch, 2^readouts - 1)."""
        if self._temperature == 1:
            return joint_probabilities(strings, self._classes)
        every = joint_probabilities(strings, strings.shape[1] + 1)
        return tf.nn.softmax(log(every) / self._temperature)[:, : self._classes]

    def dense_layers(self, strings: int) -> list[Dense]:
        """Return layers on arrays for the same function of this number of strings."""
        return probability_layers(strings, self._classes, self._temperature)


class SoftmaxOfReadouts(tf_keras.layers.Layer):
    """Layer that maps one readout per class to the probabilities of the classes."""

    def __init__(self, temperature: float) -> None:
        super().__init__(name="prediction", dtype="float64")
        self._temperature = temperature

    def call(self, readouts: tf.Tensor) -> tf.Tensor:
        """Return the probabilities, float64 (batch, classes), of readouts (batch, classes)."""
        return tf.nn.softmax(readouts / self._temperature)

    def dense_layers(self, readouts: int) -> list[Dense]:
        """Return layers on arrays for the same function of this number of readouts."""
        return softmax_layers(readouts, self._temperature)


def log(probabilities: tf.Tensor) -> tf.Tensor:
    """Return the logarithms of probabilities, which are held at the minimum of the loss or above."""
    return tf.math.log(tf.maximum(probabilities, MIN_PROBABILITY))


def joint_probabilities(strings: tf.Tensor, outcomes: int) -> tf.Tensor:
    """Return the probabilities of the first bit strings of the readouts, float64 (batch, outcomes).

    Args:
        strings: Products of Z of the readouts in each subset, (batch, 2^readouts - 1), see `joint_sums_of`.
        outcomes: Number of bit strings. String i is i in binary, with the first readout as the most significant bit.
    """
    kernel, bias = joint_kernel(strings.shape[1], outcomes)
    return strings @ tf.constant(kernel) + tf.constant(bias)
