"""The Keras model: quantum layer and head, which is one readout or dense layers over all of them.

Everything around the simulator is float64. Sums over samples then agree to the last bits for any order and number of
workers, so training does not depend on the number of workers.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from qcnn import data, simulators
from qcnn.circuits import circuits
from qcnn.experiment.config import ExperimentConfig
from qcnn.model.heads import head_of, outputs_of
from qcnn.model.losses import correct, losses
from qcnn.model.probabilities import JointProbabilities, SoftmaxOfReadouts, TwoClasses
from qcnn.simulators import batch_of
from qcnn.simulators.parameter_shift import Estimate, ParameterShift
from qcnn.simulators.structure.network import CircuitIR

PRECISION = "float64"


class QuantumLayer(tf_keras.layers.Layer):
    """Layer that maps samples to readouts, with the circuit parameters as its only weight.

    Readouts are sums of Pauli strings. For joint probabilities, the layer returns the strings.

    If `centered`, the strings of the unexcited state (without rotations) are subtracted. Otherwise the constant parts
    of all readouts add up in the prediction. They act as noise that grows with the number of readouts and requires a
    lower learning rate. The network can represent the same functions in both cases.
    """

    def __init__(
        self,
        ansatz: circuits.Ansatz,
        simulator: simulators.Simulator,
        initializer: tf_keras.initializers.Initializer,
        *,
        centered: bool,
    ) -> None:
        # The simulator expects float32 angles, which Keras would cast.
        super().__init__(name="quantum", dtype=PRECISION, autocast=False)
        self.ansatz = ansatz
        self.simulator = simulator
        self.centered = centered
        self.compiles, self.large, self.rounding = simulator.compiles, simulator.large, simulator.rounding
        # Only the parameter-shift rule gives gradients of estimates.
        self.shifted = simulator if isinstance(simulator, ParameterShift) else None

        def expectations(parameters: tf.Tensor, fields: Mapping[str, tf.Tensor]) -> tf.Tensor:
            return simulator.expectations(parameters, batch_of(simulator.network.preparation, fields))

        # AutoGraph would take seconds to analyze the simulators' code, which needs no conversion.
        self._expectations = tf.autograph.experimental.do_not_convert(expectations)
        self.parameters = self.add_weight(name="parameters", shape=(len(ansatz.symbols),), initializer=initializer)

    def call(self, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the inputs of the head, float64 (batch, readouts), of inputs by name, each (batch, ...)."""
        strings, unexcited = self.strings(inputs)
        return readouts_of(self.simulator.network, strings - unexcited, centered=self.centered)

    def strings(
        self, inputs: Mapping[str, tf.Tensor], own: tf.Tensor | None = None, parameters: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the Pauli strings, float64 (batch, strings), and the values to subtract, (1, strings).

        Args:
            inputs: Model inputs by name, each (batch, ...).
            own: Qubits whose samples are evaluated (`ExcitationBatch.own`), or None for all.
            parameters: Circuit parameters, or None for those of the layer.
        """
        fields = self._fields(inputs, own)
        values = self._expectations(self.parameters if parameters is None else parameters, fields)
        return (values[:-1], values[-1:]) if self.centered else (values, tf.zeros_like(values[:1]))

    def estimates(
        self, inputs: Mapping[str, tf.Tensor], parameters: tf.Tensor, estimate: Estimate
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the result of `strings` with estimated strings, and with their gradient.

        The subtracted values are exact: they are the same for all samples, so hardware could measure them once with
        many shots.

        Args:
            inputs: Model inputs by name, each (batch, ...).
            parameters: Circuit parameters.
            estimate: Function that estimates strings from expectation values.
        """

        def of_samples(values: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
            if not self.centered:
                return estimate(values, number)
            return tf.concat([estimate(values[:-1], number), values[-1:]], axis=0)

        if self.shifted is None:
            raise TypeError("estimates require gradient parameter_shift")
        batch = batch_of(self.simulator.network.preparation, self._fields(inputs, None))
        values = self.shifted.estimates(parameters, batch, of_samples)
        return (values[:-1], values[-1:]) if self.centered else (values, tf.zeros_like(values[:1]))

    def _fields(self, inputs: Mapping[str, tf.Tensor], own: tf.Tensor | None) -> Mapping[str, tf.Tensor]:
        """Return the fields of a batch, with an unexcited sample at the end if readouts are centered."""
        if self.centered:
            # All rotation angles of a sample of zeros are 0.
            inputs = {name: _with_zeros(values) for name, values in inputs.items()}
        return inputs if own is None else {**inputs, "own": own}


def readouts_of(network: CircuitIR, strings: tf.Tensor, *, centered: bool = False) -> tf.Tensor:
    """Return the inputs of the head: readouts, float64 (batch, readouts), or the strings for joint probabilities.

    Args:
        network: Network of the strings.
        strings: Strings, float64 (batch, strings).
        centered: Whether those of the unexcited state were subtracted.
    """
    if network.joint or network.sums.coefficients is None:
        return strings
    readouts = strings @ tf.constant(network.sums.coefficients)
    return readouts if centered else readouts + tf.constant(network.sums.constants)


def _with_zeros(values: tf.Tensor) -> tf.Tensor:
    """Return `values` (batch, ...) with an additional sample of zeros."""
    return tf.pad(values, [[0, 1], *[[0, 0]] * (len(values.shape) - 1)])


def build_model(config: ExperimentConfig) -> tf_keras.Model:
    """Build the network of an experiment, with predictions float64 (batch, 1), or probabilities (batch, classes).

    The inputs are those of the experiment's state preparation. Equal seeds give equal initial weights. The model is
    compiled with the loss and metric for `evaluate`.

    TensorFloat-32 is disabled for the process: TensorFlow has one setting for all models.

    Raises:
        ConfigError: If a custom circuit cannot be used.
    """
    # GPUs would multiply float32 with mantissas of 10 bits.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    ansatz = circuits.build(config.model, config.qubits)
    ring = circuits.ring(config.qubits)
    simulator = simulators.create(
        config.simulator,
        ansatz,
        ring,
        config.limits_on(gpus=bool(tf.config.get_visible_devices("GPU"))),
        config.preparation,
        config.noise_in_training,
        config.options.gradient,
        joint=config.options.head == "probabilities",
    )
    return assemble(config, ansatz, simulator)


def assemble(config: ExperimentConfig, ansatz: circuits.Ansatz, simulator: simulators.Simulator) -> tf_keras.Model:
    """Build the network of an experiment around a simulator.

    Args:
        config: Experiment.
        ansatz: Circuit of the simulator.
        simulator: Simulator of the quantum layer.
    """
    preparation = simulator.network.preparation
    inputs = {
        name: tf_keras.Input(shape=shape, dtype=dtype, name=name)
        for name, (shape, dtype) in preparation.inputs(config.qubits).items()
    }
    head = head_of(config, ansatz.readouts)
    is_dense = head == "dense"
    # Samples that are states or inputs of circuits have no unexcited state.
    normalization = config.options.readout_normalization
    centered = is_dense and normalization == "centered" and preparation.kind not in ("state", "circuit")
    layer = QuantumLayer(ansatz, simulator, _quantum_initializer(config, config.seed), centered=centered)
    # AutoGraph would leave files in the temporary folder when a process ends without the cleanup of libraries.
    outputs = tf.autograph.experimental.do_not_convert(layer)(inputs)
    if is_dense:
        outputs = _dense("hidden", config.hidden_units, config.hidden_activation, config.seed)(outputs)
        activation = "softmax" if config.is_classification else "linear"
        outputs = _dense("prediction", outputs_of(config), activation, config.seed + 1)(outputs)
    elif head == "probabilities":
        outputs = JointProbabilities(config.options.classes, config.options.temperature)(outputs)
    elif head == "softmax":
        outputs = SoftmaxOfReadouts(config.options.temperature)(outputs)
    elif config.is_classification:
        outputs = TwoClasses(name="prediction", dtype=PRECISION)(outputs)
    model = tf_keras.Model(inputs=inputs, outputs=outputs, name="qcnn")

    def loss(label: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return losses(tf.reshape(label, [-1]), outputs)

    def accuracy(label: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return tf.cast(correct(tf.reshape(label, [-1]), outputs, simulator.rounding), outputs.dtype)

    model.compile(loss=loss, metrics=[accuracy])
    return model


def initial_weights(model: tf_keras.Model, config: ExperimentConfig, start: int) -> tuple[npt.NDArray[np.float64], ...]:
    """Return the weights of an initialization, in the order of the trainable variables.

    Args:
        model: Model of the experiment.
        config: Experiment.
        start: Index of the initialization. Index 0 gives the weights of `build_model`.
    """
    seed = data.start_seed(config.seed, start)
    layers = dense_layers(model)
    initial = [_quantum_initializer(config, seed)(model.get_layer("quantum").parameters.shape, PRECISION)]
    for number, layer in enumerate(layers):
        initial += [_dense_initializer(seed + number)(layer.kernel.shape, PRECISION), tf.zeros_like(layer.bias)]
    return tuple(values.numpy() for values in initial)


def dense_layers(model: tf_keras.Model) -> list[tf_keras.layers.Dense]:
    """Return the dense layers in order, or an empty list with other heads."""
    return [layer for layer in model.layers if isinstance(layer, tf_keras.layers.Dense)]


def model_outputs(model: tf_keras.Model, strings: tf.Tensor, weights: Sequence[tf.Tensor] | None = None) -> tf.Tensor:
    """Return the output of the head, float64 (batch, 1) or (batch, classes).

    Args:
        model: Model of the experiment.
        strings: Pauli strings, float64 (batch, strings), minus those of the unexcited state if they are centered.
        weights: Weights in the order of the trainable variables, or None for those of the model.
    """
    _, *dense = model.trainable_variables if weights is None else weights
    quantum = model.get_layer("quantum")
    readouts = readouts_of(quantum.simulator.network, strings, centered=quantum.centered)
    if not dense and model.output_shape[1] > 1:
        return model.get_layer("prediction").call(readouts)
    for layer, kernel, bias in zip(dense_layers(model), dense[0::2], dense[1::2], strict=True):
        readouts = layer.activation(readouts @ kernel + bias)
    return readouts


def predictions_of(outputs: tf.Tensor) -> tf.Tensor:
    """Return outputs of the head as predictions: numbers (batch,), or probabilities (batch, classes)."""
    return outputs[:, 0] if outputs.shape[1] == 1 else outputs


def _quantum_initializer(config: ExperimentConfig, seed: int) -> tf_keras.initializers.Initializer:
    if config.options.initialization == "normal":
        return tf_keras.initializers.RandomNormal(0.0, config.options.initialization_scale, seed=seed)
    # The interval of TensorFlow Quantum's PQC layer, whose weights are exponents too.
    return tf_keras.initializers.RandomUniform(0.0, 2.0 * np.pi, seed=seed)


def _dense(name: str, units: int, activation: str, seed: int) -> tf_keras.layers.Dense:
    return tf_keras.layers.Dense(
        units, activation=activation, kernel_initializer=_dense_initializer(seed), name=name, dtype=PRECISION
    )


def _dense_initializer(seed: int) -> tf_keras.initializers.Initializer:
    return tf_keras.initializers.GlorotUniform(seed=seed)
