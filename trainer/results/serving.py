"""The trained network without a simulator: predictions in microseconds, in a form that others can serve."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from trainer import data
from trainer.config import ExperimentConfig
from trainer.model import PRECISION, dense_layers


class ServableModel(tf.Module):
    """A network with fixed weights, which any TensorFlow Serving loads.

    A sample rotates one qubit, so each readout, and what enters the first dense layer's activation, is exactly
    a + b cos(angle) + c sin(angle) with a, b and c fixed by qubit and weights: a table of these, (qubits, units)
    each, replaces circuit and first layer.
    """

    def __init__(self, model: tf_keras.Model, weights: Sequence[npt.NDArray[Any]] | None = None) -> None:
        """Take the weights of a model, or others in the order of its trainable variables."""
        super().__init__()
        parameters, *rest = model.trainable_variables if weights is None else weights
        pairs = zip(map(_tensor, rest[0::2]), map(_tensor, rest[1::2]), strict=True)
        activations = [layer.activation for layer in dense_layers(model)]
        layers = [(*pair, activation) for pair, activation in zip(pairs, activations, strict=True)]
        # A single readout is the prediction itself.
        readout = (tf.ones([1, 1], PRECISION), tf.zeros([1], PRECISION), tf.identity)
        (kernel, bias, self._activation), *self._layers = layers or [readout]
        quantum = model.get_layer("quantum")
        table = quantum.simulator.table(_tensor(parameters))
        unexcited = tf.zeros_like(table.unexcited) if quantum.centred else table.unexcited

        def per_qubit(changes: tf.Tensor) -> tf.Tensor:
            units = tf.zeros([changes.shape[0], kernel.shape[1]], PRECISION)
            # One place at a time: all at once would take as many times the memory.
            for change, reached in zip(tf.unstack(changes, axis=1), tf.unstack(table.reached, axis=1), strict=True):
                units += change[:, None] * tf.gather(kernel, reached)
            return units

        half_flipped = per_qubit(table.flipped) / 2
        self._constant = tf.linalg.matvec(kernel, unexcited, transpose_a=True) + bias + half_flipped
        self._cosine, self._sine = -half_flipped, per_qubit(table.mixed) / 2

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.int32, name="qubit"),
            tf.TensorSpec([None], tf.float32, name="angle"),
        ]
    )
    def predict(self, qubit: tf.Tensor, angle: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the prediction, float32 (batch,), of excited qubits (batch,) and angles (batch,) in rad."""
        return {"prediction": tf.cast(self.predictions(qubit, angle), tf.float32)}

    def predictions(self, qubit: tf.Tensor, angle: tf.Tensor) -> tf.Tensor:
        """Return what `predict` does, float64 and without a trace."""
        rotation = tf.cast(angle, PRECISION)[:, None]
        values = self._activation(
            tf.gather(self._constant, qubit)
            + tf.gather(self._cosine, qubit) * tf.cos(rotation)
            + tf.gather(self._sine, qubit) * tf.sin(rotation)
        )
        for kernel, bias, activation in self._layers:
            values = activation(values @ kernel + bias)
        return values[:, 0]


def fresh_mse(
    model: tf_keras.Model, config: ExperimentConfig, weights: Sequence[npt.NDArray[Any]] | None = None
) -> float:
    """Return the mean squared error over an experiment's 10,000 fresh samples, of exact readouts whatever its shots."""
    samples = data.fresh(config.qubits, config.seed)
    predictions = ServableModel(model, weights).predictions(samples.qubit, samples.angle)
    return float(np.mean((predictions.numpy() - samples.label) ** 2))


def _tensor(values: Any) -> tf.Tensor:
    return tf.convert_to_tensor(values)
