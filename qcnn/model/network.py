"""The Keras model: quantum layer, and dense layers if there are several readouts.

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
from qcnn.model.signs import signs_match
from qcnn.simulators import batch_of
from qcnn.simulators.parameter_shift import Estimate, ParameterShift

PRECISION = "float64"


class QuantumLayer(tf_keras.layers.Layer):
    """Layer that maps samples to readouts, with the circuit parameters as its only weight.

    If `centered`, the readouts of the unexcited state (without rotations) are subtracted. Otherwise the constant parts
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
        """Return centered or plain readouts, float64 (batch, readouts), of inputs by name, each (batch, ...)."""
        readouts, unexcited = self.readouts(inputs)
        return readouts - unexcited

    def readouts(
        self, inputs: Mapping[str, tf.Tensor], own: tf.Tensor | None = None, parameters: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return Z on the readouts, float64 (batch, readouts), and the values to subtract, (1, readouts).

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
        """Return the result of `readouts` with estimated readouts, and with their gradient.

        The subtracted values are exact: they are the same for all samples, so hardware could measure them once with
        many shots.

        Args:
            inputs: Model inputs by name, each (batch, ...).
            parameters: Circuit parameters.
            estimate: Function that estimates readouts from expectation values.
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


def _with_zeros(values: tf.Tensor) -> tf.Tensor:
    """Return `values` (batch, ...) with an additional sample of zeros."""
    return tf.pad(values, [[0, 1], *[[0, 0]] * (len(values.shape) - 1)])


def build_model(config: ExperimentConfig) -> tf_keras.Model:
    """Build the network of an experiment, with output float64 (batch, 1).

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
    several = len(ansatz.readouts) > 1
    # Samples that are states have no unexcited state.
    centered = several and config.options.readout_normalization == "centered" and preparation.kind != "state"
    layer = QuantumLayer(ansatz, simulator, _quantum_initializer(config, config.seed), centered=centered)
    # AutoGraph would leave files in the temporary folder when a process ends without the cleanup of libraries.
    outputs = tf.autograph.experimental.do_not_convert(layer)(inputs)
    if several:
        outputs = _dense("hidden", config.hidden_units, config.hidden_activation, config.seed)(outputs)
        outputs = _dense("prediction", 1, "linear", config.seed + 1)(outputs)
    model = tf_keras.Model(inputs=inputs, outputs=outputs, name="qcnn")

    def sign_accuracy(label: tf.Tensor, prediction: tf.Tensor) -> tf.Tensor:
        matching = signs_match(label, prediction, simulator.rounding)
        return tf.reduce_mean(tf.cast(matching, prediction.dtype), axis=-1)

    model.compile(loss="mse", metrics=[sign_accuracy])
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
    """Return the dense layers in order, or an empty list if one readout is the prediction."""
    return [layer for layer in model.layers if isinstance(layer, tf_keras.layers.Dense)]


def model_outputs(model: tf_keras.Model, readouts: tf.Tensor, weights: Sequence[tf.Tensor] | None = None) -> tf.Tensor:
    """Return the output of the dense layers, float64 (batch, 1).

    Args:
        model: Model of the experiment.
        readouts: Output of the quantum layer, float64 (batch, readouts).
        weights: Weights in the order of the trainable variables, or None for those of the model.
    """
    _, *dense = model.trainable_variables if weights is None else weights
    for layer, kernel, bias in zip(dense_layers(model), dense[0::2], dense[1::2], strict=True):
        readouts = layer.activation(readouts @ kernel + bias)
    return readouts


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


def sample(expectations: tf.Tensor, draw: tf.Tensor) -> tf.Tensor:
    """Estimate Z on the readouts from shots, float64 (samples, readouts) like `expectations`.

    An estimate is 2 k / shots - 1 with k binomial. Each readout is sampled from its marginal distribution: the mean is
    the expectation value E and the variance (1 - E^2) / shots. Unlike in a real measurement, readouts of one sample are
    not correlated.

    The gradient is that of the expectation values, which is exact for equal upstream gradients. With a linear head the
    mean prediction is exact, so the mean gradient is the exact gradient of the squared error in the circuit parameters.
    With a nonlinear head it deviates by the order of 1 / shots.
    """
    shots, before = tf.cast(draw[0], PRECISION), draw[1]
    # Simulators compute in float32, so an expectation value may be slightly outside [-1, 1].
    probability = tf.clip_by_value((1 + expectations) / 2, 0, 1)
    # TensorFlow samples by index in the output. Samples of preceding replicas take their indices with probability 0,
    # which is fast.
    others = tf.zeros([before, tf.shape(expectations)[1]], PRECISION)
    probabilities = tf.concat([others, probability], axis=0)
    ones = tf.random.stateless_binomial(tf.shape(probabilities), draw[2:], shots, probabilities, PRECISION)
    estimates = 2 * ones[before:] / shots - 1
    return expectations + tf.stop_gradient(estimates - expectations)


def sampled_outputs(
    model: tf_keras.Model,
    readouts: tuple[tf.Tensor, tf.Tensor],
    draw: tf.Tensor,
    weights: Sequence[tf.Tensor] | None = None,
) -> tf.Tensor:
    """Return the predictions with sampled readouts, float64 (samples, 1).

    The values that center the readouts are exact: they are the same for all samples, so hardware could measure them
    once with many shots.

    Args:
        model: Model of the experiment.
        readouts: Result of `QuantumLayer.readouts`.
        draw: Shots, index of the first sample and seed, int64 (4,).
        weights: Weights in the order of the trainable variables, or None for those of the model.
    """
    expectations, unexcited = readouts
    return model_outputs(model, sample(expectations, draw) - unexcited, weights)


def shifted_outputs(
    model: tf_keras.Model, inputs: Mapping[str, tf.Tensor], draw: tf.Tensor, weights: Sequence[tf.Tensor]
) -> tf.Tensor:
    """Return the predictions with sampled readouts and a parameter-shift gradient, float64 (samples, 1).

    Readouts of shifted circuits are sampled, too, with seeds from the batch seed and the index of the shifted circuit.

    Args:
        model: Model of the experiment.
        inputs: Model inputs by name, each (samples, ...).
        draw: Shots, index of the first sample and seed, int64 (4,).
        weights: Weights in the order of the trainable variables.
    """

    def estimate(values: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        seed = tf.cast(tf.random.experimental.stateless_fold_in(draw[2:], number), draw.dtype)
        return sample(values, tf.concat([draw[:2], tf.where(number > 0, seed, draw[2:])], axis=0))

    values, unexcited = model.get_layer("quantum").estimates(inputs, weights[0], estimate)
    return model_outputs(model, values - unexcited, weights)
