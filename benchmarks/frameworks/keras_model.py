"""Keras model with a circuit, and its compiled training step with Adam."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt
import tensorflow as tf
import tf_keras

from benchmarks.frameworks.network import LEARNING_RATE


class KerasModel:
    """Model that is trained without `fit`."""

    def __init__(self, model: tf_keras.Model, readouts: Callable[[tf.Tensor], tf.Tensor]) -> None:
        """Create the optimizer.

        Args:
            model: Model with its weights.
            readouts: Function that returns the readouts, (batch, readouts), of samples.
        """
        self._model, self._readouts = model, readouts
        self._adam = tf_keras.optimizers.Adam(learning_rate=LEARNING_RATE)
        self._step = tf.function(self._one_step)

    def step(self, prepared: Any) -> float:
        """Train on a batch, and return the loss."""
        return float(self._step(*prepared))

    def gradients(self, prepared: Any) -> tuple[npt.ArrayLike, Sequence[npt.ArrayLike]]:
        """Return readouts (batch, readouts) and gradients, in the order of the model's weights."""
        gradients = self._loss_and_gradients(*prepared)[1]
        return self._readouts(prepared[0]).numpy(), [gradient.numpy() for gradient in gradients]

    def _loss_and_gradients(self, samples: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.math.squared_difference(self._model(samples, training=True)[:, 0], label))
        return loss, tape.gradient(loss, self._model.trainable_variables)

    def _one_step(self, samples: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        loss, gradients = self._loss_and_gradients(samples, label)
        self._adam.apply_gradients(zip(gradients, self._model.trainable_variables, strict=True))
        return loss
