"""Circuits as layers of Keras 3, which must use TensorFlow.

`qcnn.QuantumLayer` is the layer of tf_keras, which is Keras 2.
"""

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from qcnn.api.circuits import Circuit, CircuitFunction
from qcnn.api.layers import Encoding, circuit_arguments
from qcnn.errors import ConfigError, format_value, single_line
from qcnn.process.library_loading import load_tensorflow


def _check_keras() -> None:
    """Check that Keras 3 is installed and uses TensorFlow.

    Raises:
        ConfigError: If not.
    """
    if importlib.util.find_spec("keras") is None:
        raise ConfigError("keras: must be Keras 3, which pip install keras installs. Given: none")
    try:
        import keras
    except (ImportError, ValueError) as error:
        given = format_value(os.environ.get("KERAS_BACKEND", ""))
        raise ConfigError(
            f"KERAS_BACKEND: must be tensorflow; Keras cannot be imported ({single_line(error)}). Given: {given}"
        ) from None
    if not keras.__version__.startswith("3."):
        given = keras.__version__
        raise ConfigError(f"keras: must be Keras 3; qcnn.QuantumLayer is the layer of Keras 2. Given: {given}")
    if keras.config.backend() != "tensorflow":
        given = format_value(keras.config.backend())
        raise ConfigError(
            f"KERAS_BACKEND: must be tensorflow before Keras is imported; circuits run in TensorFlow. Given: {given}"
        )


_check_keras()
load_tensorflow()

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

from qcnn.model.circuit_readouts import CircuitReadouts  # noqa: E402


def QuantumLayer(  # noqa: N802 - it is used as a class of Keras
    circuit: Circuit | CircuitFunction | str,
    qubits: int | None = None,
    *,
    inputs: str = "",
    encoding: Encoding | None = None,
    feature_map: str = "",
    observables: str = "",
    **settings: Any,
) -> "CircuitLayer":
    """Return a circuit as a layer of Keras 3. See `qcnn.QuantumLayer` for the arguments.

    Raises:
        ConfigError: If the circuit has no inputs, or an argument is invalid.
    """
    arguments = circuit_arguments(circuit, qubits, inputs, encoding, feature_map, observables)
    return CircuitLayer(**arguments, **settings)


@keras.saving.register_keras_serializable("qcnn")
class CircuitLayer(keras.layers.Layer):
    """Layer of Keras 3 with the behavior and the arguments of `qcnn.model.quantum_layer.CircuitLayer`."""

    def __init__(self, circuit: str, *, seed: int | None = None, **settings: Any) -> None:
        readouts, others = CircuitReadouts.of_layer(circuit, settings)
        super().__init__(**others)
        self._readouts, self._seed = readouts, seed
        # Groups of samples of a batch whose size is unknown are a loop that XLA cannot compile.
        self.supports_jit = False

    def build(self, input_shape: Any) -> None:
        """Create the circuit parameters."""
        self.parameters = self.add_weight(
            name="parameters",
            shape=(len(self._readouts.ansatz.symbols),),
            initializer=keras.initializers.RandomUniform(0.0, 2.0, seed=self._seed),
            # Not in half precision, whatever the other layers compute in.
            autocast=False,
        )

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the readouts, (batch, readouts), of features, (batch, features).

        Raises:
            ConfigError: If the number of features does not fit the circuit.
        """
        return tf.cast(self._readouts(self.parameters, inputs), self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, int]:
        """Return the shape (batch, readouts)."""
        return self._readouts.output_shape(input_shape)

    def get_config(self) -> Mapping[str, Any]:
        """Return the arguments of the layer, with the circuit as text."""
        return {**super().get_config(), **self._readouts.settings, "seed": self._seed}
