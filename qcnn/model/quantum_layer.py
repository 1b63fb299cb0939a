"""Layer of tf_keras for a circuit, differentiable in its parameters and its inputs."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from qcnn.model.circuit_readouts import CircuitReadouts


@tf_keras.saving.register_keras_serializable("qcnn")
class CircuitLayer(tf_keras.layers.Layer):
    """Layer that returns the readouts of a circuit, (batch, readouts), for features, (batch, features).

    Parameters have the type of Keras' variables, the order of the circuit's symbols, and uniform initial values in
    [0, 2). Strategies sum gradients of variables of one type only. The circuit is saved with a model as text.

    Args:
        circuit: Embedded circuit.
        seed: Seed of the initial values.
        **settings: Further arguments of `CircuitReadouts`, and those of a Keras layer.

    Raises:
        ConfigError: If an argument is invalid, see `CircuitReadouts`.
    """

    def __init__(self, circuit: str, *, seed: int | None = None, **settings: Any) -> None:
        readouts, others = CircuitReadouts.of_layer(circuit, settings)
        super().__init__(**others)
        self._readouts, self._seed = readouts, seed
        self.ansatz = self._readouts.ansatz
        self.parameters = self.add_weight(
            name="parameters",
            shape=(len(self.ansatz.symbols),),
            initializer=tf_keras.initializers.RandomUniform(0.0, 2.0, seed=seed),
            # Not in half precision, whatever the other layers compute in.
            experimental_autocast=False,
        )

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the readouts, (batch, readouts), of features, (batch, features).

        Raises:
            ConfigError: If the number of features does not fit the circuit.
        """
        return tf.cast(self._readouts(self.parameters, inputs), self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """Return the shape (batch, readouts)."""
        return tf.TensorShape(self._readouts.output_shape(input_shape))

    def get_config(self) -> Mapping[str, Any]:
        """Return the arguments of the layer, with the circuit as text."""
        return {**super().get_config(), **self._readouts.settings, "seed": self._seed}
