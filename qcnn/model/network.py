"""The Keras model: quantum layer, and dense layers where there are several readouts.

Everything around the simulator is float64: sums over samples then agree to the last bits in whatever
order and on however many workers they are made, so training does not depend on the number of workers.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from qcnn import data, simulators
from qcnn.circuits import circuits
from qcnn.experiment import ExperimentConfig
from qcnn.simulators import batch_of
from qcnn.simulators.parameter_shift import Estimate, ParameterShift

PRECISION = "float64"


class QuantumLayer(tf_keras.layers.Layer):
    """What the dense layers take of a batch of samples; its one weight holds the quantum parameters.

    These are the readouts, or where they are `centred` the readouts less those of the state that nothing turns.
    Without that the constant parts of all readouts add up in the prediction: noise that grows with their number, and
    that a learning rate must fall with. What the network can learn is the same.
    """

    def __init__(
        self,
        ansatz: circuits.Ansatz,
        simulator: simulators.Simulator,
        initializer: tf_keras.initializers.Initializer,
        *,
        centred: bool,
    ) -> None:
        # The simulator takes the angle as it is, float32.
        super().__init__(name="quantum", dtype=PRECISION, autocast=False)
        self.ansatz = ansatz
        self.simulator = simulator
        self.centred = centred
        self.compiles, self.large = simulator.compiles, simulator.large
        # What alone can make a gradient of estimates.
        self.shifted = simulator if isinstance(simulator, ParameterShift) else None

        def expectations(parameters: tf.Tensor, fields: Mapping[str, tf.Tensor]) -> tf.Tensor:
            return simulator.expectations(parameters, batch_of(simulator.network.preparation, fields))

        # AutoGraph would take seconds to read the simulators' code, in which it finds nothing to rewrite.
        self._expectations = tf.autograph.experimental.do_not_convert(expectations)
        self.parameters = self.add_weight(name="parameters", shape=(len(ansatz.symbols),), initializer=initializer)

    def call(self, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return what the dense layers take, float64 (batch, readouts), of samples: by name, each (batch, ...)."""
        readouts, unturned = self.readouts(inputs)
        return readouts - unturned

    def readouts(
        self, inputs: Mapping[str, tf.Tensor], own: tf.Tensor | None = None, parameters: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return Z on the readouts, float64 (batch, readouts), and what to subtract from them, (1, readouts).

        Of the layer's parameters, or of others; with `own`, of the samples of these qubits (`Batch.own`).
        """
        fields = self._fields(inputs, own)
        values = self._expectations(self.parameters if parameters is None else parameters, fields)
        return (values[:-1], values[-1:]) if self.centred else (values, tf.zeros_like(values[:1]))

    def estimates(
        self, inputs: Mapping[str, tf.Tensor], parameters: tf.Tensor, estimate: Estimate
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return what `readouts` does, those of the samples as they are estimated, and with them their gradient.

        What is subtracted is not estimated: it is the same for all samples, and hardware would measure it once for them
        all, as often as need be.
        """

        def of_samples(values: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
            if not self.centred:
                return estimate(values, number)
            return tf.concat([estimate(values[:-1], number), values[-1:]], axis=0)

        if self.shifted is None:
            raise TypeError("estimates need a gradient of shifted circuits")
        batch = batch_of(self.simulator.network.preparation, self._fields(inputs, None))
        values = self.shifted.estimates(parameters, batch, of_samples)
        return (values[:-1], values[-1:]) if self.centred else (values, tf.zeros_like(values[:1]))

    def _fields(self, inputs: Mapping[str, tf.Tensor], own: tf.Tensor | None) -> Mapping[str, tf.Tensor]:
        """Return what a batch of samples is made of, with one that nothing turns at its end where they are centred."""
        if self.centred:
            # A sample of zeros turns nothing, whatever is turned by it.
            inputs = {name: _with_zeros(values) for name, values in inputs.items()}
        return inputs if own is None else {**inputs, "own": own}


def _with_zeros(values: tf.Tensor) -> tf.Tensor:
    """Return values, (batch, ...), with a sample of zeros more."""
    return tf.pad(values, [[0, 1], *[[0, 0]] * (len(values.shape) - 1)])


def build_model(config: ExperimentConfig) -> tf_keras.Model:
    """Build the network: its inputs are what the experiment's preparation says, its output is float64 (batch, 1).

    Equal seeds give equal initial weights. Compiled with the loss and metric that `evaluate` needs.

    Raises:
        ConfigError: the user's own circuit cannot be used.
    """
    ansatz = circuits.build(config.model, config.qubits)
    ring = circuits.ring(config.qubits)
    simulator = simulators.create(
        config.simulator,
        ansatz,
        ring,
        config.limits,
        config.preparation,
        config.noise_in_training,
        config.options.gradient,
    )
    return assemble(config, ansatz, simulator)


def assemble(config: ExperimentConfig, ansatz: circuits.Ansatz, simulator: simulators.Simulator) -> tf_keras.Model:
    """Build the network around a simulator of the ansatz."""
    preparation = simulator.network.preparation
    inputs = {
        name: tf_keras.Input(shape=shape, dtype=dtype, name=name)
        for name, (shape, dtype) in preparation.inputs(config.qubits).items()
    }
    several = len(ansatz.readouts) > 1
    # There is no state that nothing turns where samples are states.
    centred = several and config.options.readout_normalization == "centered" and preparation.kind != "state"
    outputs = QuantumLayer(ansatz, simulator, _quantum_initializer(config, config.seed), centred=centred)(inputs)
    if several:
        outputs = _dense("hidden", config.hidden_units, config.hidden_activation, config.seed)(outputs)
        outputs = _dense("prediction", 1, "linear", config.seed + 1)(outputs)
    model = tf_keras.Model(inputs=inputs, outputs=outputs, name="qcnn")
    model.compile(loss="mse", metrics=[sign_accuracy])
    return model


def initial_weights(model: tf_keras.Model, config: ExperimentConfig, start: int) -> tuple[npt.NDArray[np.float64], ...]:
    """Return the weights that a start begins with, as the trainable variables; start 0 is that of `build_model`."""
    seed = data.start_seed(config.seed, start)
    layers = dense_layers(model)
    initial = [_quantum_initializer(config, seed)(model.get_layer("quantum").parameters.shape, PRECISION)]
    for number, layer in enumerate(layers):
        initial += [_dense_initializer(seed + number)(layer.kernel.shape, PRECISION), tf.zeros_like(layer.bias)]
    return tuple(values.numpy() for values in initial)


def dense_layers(model: tf_keras.Model) -> list[tf_keras.layers.Dense]:
    """Return what turns readouts into the prediction, in order; none where one readout is the prediction."""
    return [layer for layer in model.layers if isinstance(layer, tf_keras.layers.Dense)]


def model_outputs(model: tf_keras.Model, readouts: tf.Tensor, weights: Sequence[tf.Tensor] | None = None) -> tf.Tensor:
    """Return what the model makes of what its quantum layer returned, float64 (batch, 1).

    With its own weights, or with others in the order of its trainable variables.
    """
    _, *dense = model.trainable_variables if weights is None else weights
    for layer, kernel, bias in zip(dense_layers(model), dense[0::2], dense[1::2], strict=True):
        readouts = layer.activation(readouts @ kernel + bias)
    return readouts


def signs_match(label: tf.Tensor, prediction: tf.Tensor) -> tf.Tensor:
    """Return 1.0 where the prediction falls on the label's side, else 0.0; zero counts as +1."""
    return tf.cast(tf.equal(label > 0, prediction >= 0), prediction.dtype)


def sign_accuracy(label: tf.Tensor, prediction: tf.Tensor) -> tf.Tensor:
    """Share of predictions with the label's sign."""
    return tf.reduce_mean(signs_match(label, prediction), axis=-1)


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
    """Estimate Z on the readouts from shots, float64 (samples, readouts) as `expectations` are.

    An estimate is 2 k / shots - 1 with k binomial, each readout from its own marginal: its mean is the expectation
    value E and its variance (1 - E^2) / shots, but readouts of one sample are not correlated as those of one
    measurement are.

    The gradient is that of the expectation values: exact for equal upstream. With a linear head, whose prediction's
    mean is the exact one, its mean is the gradient of the exact squared error in the quantum parameters; with a
    non-linear one it is off by the order of 1 / shots.
    """
    shots, before = tf.cast(draw[0], PRECISION), draw[1]
    # Simulators compute in float32: an expectation value may be just outside [-1, 1].
    probability = tf.clip_by_value((1 + expectations) / 2, 0, 1)
    # TensorFlow draws by place in the output: samples of other replicas hold theirs, at probability 0, which is quick.
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
    """Return what the model predicts, float64 (samples, 1), from what its quantum layer's `readouts` returned.

    The readouts of the samples are drawn. What is subtracted to centre them is not: it is the same for all samples,
    and hardware would measure it once for them all, as often as need be.
    """
    expectations, unturned = readouts
    return model_outputs(model, sample(expectations, draw) - unturned, weights)


def shifted_outputs(
    model: tf_keras.Model, inputs: Mapping[str, tf.Tensor], draw: tf.Tensor, weights: Sequence[tf.Tensor]
) -> tf.Tensor:
    """Return what `sampled_outputs` does of samples, by name, where the gradient is made of shifted circuits.

    Those are drawn too, from seeds that follow from the batch's and the number of the shifted circuit.
    """

    def estimate(values: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        seed = tf.cast(tf.random.experimental.stateless_fold_in(draw[2:], number), draw.dtype)
        return sample(values, tf.concat([draw[:2], tf.where(number > 0, seed, draw[2:])], axis=0))

    values, unturned = model.get_layer("quantum").estimates(inputs, weights[0], estimate)
    return model_outputs(model, values - unturned, weights)
