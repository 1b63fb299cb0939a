"""The Keras model: quantum layer, and dense layers where there are several readouts.

Everything around the simulator is float64: sums over samples then agree to the last bits in whatever
order and on however many workers they are made, so training does not depend on the number of workers.
"""

import numpy as np
import tensorflow as tf
import tf_keras

from trainer import simulators
from trainer.config import ExperimentConfig
from trainer.quantum import circuits
from trainer.simulators import Batch, Limits

PRECISION = "float64"
_OPTIMIZERS = {
    "adam": tf_keras.optimizers.Adam,
    "sgd": tf_keras.optimizers.SGD,
    "rmsprop": tf_keras.optimizers.RMSprop,
    "adagrad": tf_keras.optimizers.Adagrad,
    "adamax": tf_keras.optimizers.Adamax,
    "nadam": tf_keras.optimizers.Nadam,
}


class QuantumLayer(tf_keras.layers.Layer):
    """Readouts of the circuit for a batch of samples; its one weight holds the quantum parameters."""

    def __init__(self, ansatz: circuits.Ansatz, simulator: simulators.Simulator, seed: int) -> None:
        # The simulator takes the angle as it is, float32.
        super().__init__(name="quantum", dtype=PRECISION, autocast=False)
        self.ansatz = ansatz
        self.simulator = simulator
        self.compiles, self.large = simulator.compiles, simulator.large
        # AutoGraph would take seconds to read the simulators' code, in which it finds nothing to rewrite.
        self._expectations = tf.autograph.experimental.do_not_convert(simulator.expectations)
        # The interval of TensorFlow Quantum's PQC layer, whose weights are exponents too.
        self.parameters = self.add_weight(
            name="parameters",
            shape=(len(ansatz.symbols),),
            initializer=tf_keras.initializers.RandomUniform(0.0, 2.0 * np.pi, seed=seed),
        )

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Return Z on the readouts, float64 (batch, readouts)."""
        qubit, angle = inputs
        return tf.cast(self._expectations(self.parameters, Batch(qubit, angle)), self.dtype)


def build_model(config: ExperimentConfig) -> tf_keras.Model:
    """Build the network: inputs qubit int32 (batch,) and angle float32 (batch,), output float64 (batch, 1).

    Equal seeds give equal initial weights. Compiled with the loss and metric that `evaluate` needs.

    Raises:
        ConfigError: the user's own circuit cannot be used.
    """
    ansatz = circuits.build(config.model, config.qubits)
    simulator = simulators.create(config.simulator, ansatz, circuits.ring(config.qubits), limits(config))
    return assemble(config, ansatz, simulator)


def limits(config: ExperimentConfig) -> Limits:
    """Return what a worker's simulator has to keep to."""
    return Limits(
        memory=config.options.memory_gib * 2**30,
        batch=-(-config.batch_size // config.workers),
        real_bytes={"complex64": 4, "complex128": 8}[config.options.precision],
    )


def assemble(config: ExperimentConfig, ansatz: circuits.Ansatz, simulator: simulators.Simulator) -> tf_keras.Model:
    """Build the network around a simulator of the ansatz."""
    qubit = tf_keras.Input(shape=(), dtype=tf.int32, name="qubit")
    angle = tf_keras.Input(shape=(), dtype=tf.float32, name="angle")
    outputs = QuantumLayer(ansatz, simulator, config.seed)((qubit, angle))
    if len(ansatz.readouts) > 1:
        outputs = _dense("hidden", config.hidden_units, config.hidden_activation, config.seed)(outputs)
        outputs = _dense("prediction", 1, "linear", config.seed + 1)(outputs)
    model = tf_keras.Model(inputs=(qubit, angle), outputs=outputs, name="qcnn")
    model.compile(loss="mse", metrics=[sign_accuracy])
    return model


def dense_layers(model: tf_keras.Model) -> list[tf_keras.layers.Dense]:
    """Return what turns readouts into the prediction, in order; none where one readout is the prediction."""
    return [layer for layer in model.layers if isinstance(layer, tf_keras.layers.Dense)]


def build_optimizer(config: ExperimentConfig) -> tf_keras.optimizers.Optimizer:
    """Return the optimizer of an experiment, with Keras' defaults but for the learning rate."""
    # Not compiled: to enter a compiled program for each variable takes longer than its update.
    return _OPTIMIZERS[config.optimizer](learning_rate=config.learning_rate, jit_compile=False)


def same_sign(label: tf.Tensor, prediction: tf.Tensor) -> tf.Tensor:
    """Return 1.0 where the prediction falls on the label's side, else 0.0; zero counts as +1."""
    return tf.cast(tf.equal(label > 0, prediction >= 0), prediction.dtype)


def sign_accuracy(label: tf.Tensor, prediction: tf.Tensor) -> tf.Tensor:
    """Share of predictions with the label's sign."""
    return tf.reduce_mean(same_sign(label, prediction), axis=-1)


def _dense(name: str, units: int, activation: str, seed: int) -> tf_keras.layers.Dense:
    initializer = tf_keras.initializers.GlorotUniform(seed=seed)
    return tf_keras.layers.Dense(
        units, activation=activation, kernel_initializer=initializer, name=name, dtype=PRECISION
    )
