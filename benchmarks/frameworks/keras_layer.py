"""qcnn.QuantumLayer in a Keras model with Dense layers and Adam, and a compiled training step."""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import tensorflow as tf
import tf_keras

import qcnn
from benchmarks.frameworks import layers, process
from benchmarks.frameworks.network import HIDDEN_UNITS, LEARNING_RATE, FeatureBatch, StepTask


class KerasLayer:
    """Keras model with a circuit."""

    def __init__(self, task: StepTask) -> None:
        self._readouts = qcnn.QuantumLayer(layers.layers, task.qubits, encoding="ry")
        self._model = tf_keras.Sequential(
            [self._readouts, tf_keras.layers.Dense(HIDDEN_UNITS), tf_keras.layers.Dense(1)]
        )
        self._model.build((task.batch_size, task.qubits))
        self._model.set_weights(task.weights)
        self._adam = tf_keras.optimizers.Adam(learning_rate=LEARNING_RATE)
        self._step = tf.function(self._one_step)

    def prepare(self, batch: FeatureBatch) -> Any:
        """Return the features and the labels."""
        return tf.constant(batch.features), tf.constant(batch.label)

    def step(self, prepared: Any) -> float:
        """Train on a batch, and return the loss."""
        return float(self._step(*prepared))

    def gradients(self, prepared: Any) -> tuple[npt.ArrayLike, Sequence[npt.ArrayLike]]:
        """Return readouts (batch, readouts) and gradients."""
        return self._readouts(prepared[0]).numpy(), [each.numpy() for each in self._loss_and_gradients(*prepared)[1]]

    def _loss_and_gradients(self, samples: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.math.squared_difference(self._model(samples, training=True)[:, 0], label))
        return loss, tape.gradient(loss, self._model.trainable_variables)

    def _one_step(self, samples: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        loss, gradients = self._loss_and_gradients(samples, label)
        self._adam.apply_gradients(zip(gradients, self._model.trainable_variables, strict=True))
        return loss


if __name__ == "__main__":
    process.run(f"qcnn.QuantumLayer {qcnn.__version__}", process.parser(features=True).parse_args(), KerasLayer)
