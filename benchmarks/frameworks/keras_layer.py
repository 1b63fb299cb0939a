"""qcnn.QuantumLayer in a Keras model with Dense layers."""

from typing import Any

import tensorflow as tf
import tf_keras

import qcnn
from benchmarks.frameworks import layers, process
from benchmarks.frameworks.keras_model import KerasModel
from benchmarks.frameworks.network import HIDDEN_UNITS, FeatureBatch, StepTask


class KerasLayer(KerasModel):
    """Keras model with a circuit."""

    def __init__(self, task: StepTask) -> None:
        layer = qcnn.QuantumLayer(layers.layers, task.qubits, encoding="ry")
        model = tf_keras.Sequential([layer, tf_keras.layers.Dense(HIDDEN_UNITS), tf_keras.layers.Dense(1)])
        model.build((task.batch_size, task.qubits))
        model.set_weights(task.weights)
        super().__init__(model, layer)

    def prepare(self, batch: FeatureBatch) -> Any:
        """Return the features and the labels."""
        return tf.constant(batch.features), tf.constant(batch.label)


if __name__ == "__main__":
    process.run(f"qcnn.QuantumLayer {qcnn.__version__}", process.parser(features=True).parse_args(), KerasLayer)
