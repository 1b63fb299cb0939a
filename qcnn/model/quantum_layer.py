"""Circuit as a Keras layer, which is differentiable in its parameters and in its inputs."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from qcnn import simulators
from qcnn.circuits import circuits, noise
from qcnn.circuits.formats import cirq_json
from qcnn.circuits.formats.embedded import embedded_content, is_embedded, model_display_name
from qcnn.circuits.preparation import Preparation
from qcnn.errors import ConfigError, format_value
from qcnn.model.network import PRECISION, readouts_of
from qcnn.simulators import CircuitInputBatch, SimulatorLimits
from qcnn.simulators.interface import REAL_BYTES
from qcnn.simulators.tensor_ops import map_groups

# Samples that are evolved together if the size of a batch is unknown when a function is traced.
_GROUP = 32
_GIB = 2**30


@tf_keras.saving.register_keras_serializable("qcnn")
class CircuitLayer(tf_keras.layers.Layer):
    """Layer that returns the readouts of a circuit with inputs, (batch, readouts), for features, (batch, inputs).

    Parameters are float64, in the order of the circuit's symbols, with uniform initial values in [0, 2). The circuit is
    saved with a model as text.

    Args:
        circuit: Embedded circuit with inputs.
        simulator: Simulator, or `auto` for the cheapest one.
        noise: Noise as the field of an experiment.
        gradient: `adjoint` or `parameter_shift`.
        precision: Type of amplitudes, `complex64` or `complex128`.
        memory_gib: Memory limit of the states, in GiB.
        seed: Seed of the initial values.
        **settings: Arguments of a Keras layer.

    Raises:
        ConfigError: If the circuit has no inputs, or the simulator cannot run it.
    """

    def __init__(
        self,
        circuit: str,
        *,
        simulator: str = "auto",
        noise: str = "",
        gradient: str = "adjoint",
        precision: str = "complex64",
        memory_gib: float = 2.0,
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        # A function by name, in the file of a saved model, would be executed.
        if not is_embedded(circuit):
            raise ConfigError(f"circuit: must be the text of an embedded circuit. Given: {format_value(circuit)}")
        self._settings = {
            "circuit": circuit,
            "simulator": simulator,
            "noise": noise,
            "gradient": gradient,
            "precision": precision,
            "memory_gib": memory_gib,
            "seed": seed,
        }
        if precision not in REAL_BYTES:
            raise ConfigError(f"precision: must be {' or '.join(REAL_BYTES)}. Given: {format_value(precision)}")
        limits = SimulatorLimits(
            memory_gib * _GIB,
            _GROUP,
            real_bytes=REAL_BYTES[precision],
            builtin_operations=bool(tf.config.get_visible_devices("GPU")),
        )
        self.ansatz = cirq_json.read(embedded_content(circuit), model_display_name(circuit))
        if not self.ansatz.inputs:
            raise ConfigError(f"inputs: must be those of the circuit. Given: none with {model_display_name(circuit)}")
        self._simulator = simulators.create(
            simulator,
            self.ansatz,
            circuits.ring(cirq_json.width(self.ansatz)),
            limits,
            Preparation("circuit", len(self.ansatz.inputs)),
            _parse_noise(noise),
            gradient,
        )
        self.parameters = self.add_weight(
            name="parameters",
            shape=(len(self.ansatz.symbols),),
            dtype=PRECISION,
            initializer=tf_keras.initializers.RandomUniform(0.0, 2.0, seed=seed),
        )

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the readouts, (batch, readouts), of features, (batch, inputs).

        Raises:
            ConfigError: If the number of features is not that of the inputs.
        """
        expected, shape = len(self.ansatz.inputs), inputs.shape
        if shape.rank != 2 or shape[1] != expected:
            raise ConfigError(f"inputs: must have the shape (batch, {expected}). Given: {shape}")
        features = tf.cast(inputs, PRECISION)
        # AutoGraph would take seconds to analyze the simulators' code, which needs no conversion.
        strings = tf.autograph.experimental.do_not_convert(self._strings)(features)
        return tf.cast(readouts_of(self._simulator.network, strings), self.compute_dtype)

    def _strings(self, features: tf.Tensor) -> tf.Tensor:
        def measure(parameters: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
            return self._simulator.expectations(parameters, CircuitInputBatch(features))

        parameters = tf.convert_to_tensor(self.parameters)
        if features.shape[0] is not None:
            return measure(parameters, features)
        count, strings = tf.shape(features)[0], len(self._simulator.network.strings)
        groups = tf.maximum(-(-count // _GROUP), 1)
        padded = tf.pad(features, [[0, groups * _GROUP - count], [0, 0]])
        grouped = tf.reshape(padded, [-1, _GROUP, features.shape[1]])
        every = map_groups(measure, parameters, (grouped,), (_GROUP, strings), of_inputs=True)
        return tf.reshape(every, [-1, strings])[:count]

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """Return the shape (batch, readouts)."""
        return tf.TensorShape([tf.TensorShape(input_shape)[0], len(self.ansatz.readouts)])

    def get_config(self) -> Mapping[str, Any]:
        """Return the arguments of the layer, with the circuit as text."""
        return {**super().get_config(), **self._settings}


def _parse_noise(text: str) -> noise.Noise:
    try:
        return noise.parse(text)
    except ValueError:
        raise ConfigError(f"noise: must be {noise.ALLOWED}. Given: {format_value(text)}") from None
