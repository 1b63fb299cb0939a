"""The trained network in servable form, without a simulator for excitations.

An excitation rotates one qubit, so a table replaces the circuit, and a prediction takes microseconds. For other samples
the servable model evolves one state per sample with standard TensorFlow operations.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from qcnn import data
from qcnn.experiment.config import ExperimentConfig
from qcnn.model.array_layers import Dense
from qcnn.model.network import PRECISION, QuantumLayer, build_model, dense_layers, model_outputs, predictions_of
from qcnn.model.probabilities import JointProbabilities, SoftmaxOfReadouts, log, two_classes
from qcnn.results.predictor_file import ExactPredictor, ExcitationTable
from qcnn.simulators import registry
from qcnn.simulators.data_states import normalized_states

# Number of samples per batch whose states are evolved.
_BATCH = 1024
# Matrix, constants and activation of a layer.
_Layer: TypeAlias = tuple[tf.Tensor, tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]
_Weights: TypeAlias = Sequence[npt.NDArray[Any]]


class ServableModel(tf.Module):
    """Network for excitations with fixed weights, which TensorFlow Serving can load.

    A sample rotates one qubit. Each readout, and each input of the first activation, is therefore exactly
    a + b cos(angle) + c sin(angle), where a, b and c depend on qubit and weights. A table of these, (qubits, units)
    each, replaces the circuit and the first layer.
    """

    def __init__(self, model: tf_keras.Model, weights: _Weights | None = None, classes: Sequence[str] = ()) -> None:
        """Create the table from the model's weights, or from others in the order of its trainable variables.

        `classes` are the names of the classes that `predict` returns.
        """
        super().__init__()
        self._classes = tuple(classes)
        parameters, *rest = model.trainable_variables if weights is None else weights
        pairs = zip(map(_tensor, rest[0::2]), map(_tensor, rest[1::2]), strict=True)
        activations = [layer.activation for layer in dense_layers(model)]
        layers = [(*pair, activation) for pair, activation in zip(pairs, activations, strict=True)]
        quantum, self._outputs = model.get_layer("quantum"), model.output_shape[1]
        head = model.layers[-1]
        if isinstance(head, JointProbabilities | SoftmaxOfReadouts):
            layers = [_layer(each) for each in head.dense_layers(head.input_shape[1])]
        # A single readout is the prediction itself.
        readout = (tf.ones([1, 1], PRECISION), tf.zeros([1], PRECISION), tf.identity)
        layers = [*_sums(quantum), *layers] or [readout]
        (kernel, bias, self._activation), *self._layers = layers
        table = quantum.simulator.table(_tensor(parameters))
        unexcited = tf.zeros_like(table.unexcited) if quantum.centered else table.unexcited

        def per_qubit(changes: tf.Tensor) -> tf.Tensor:
            units = tf.zeros([changes.shape[0], kernel.shape[1]], PRECISION)
            # One index at a time, because all at once would multiply the memory.
            for change, reached in zip(tf.unstack(changes, axis=1), tf.unstack(table.reached, axis=1), strict=True):
                units += change[:, None] * tf.gather(kernel, reached)
            return units

        half_flipped = per_qubit(table.flipped) / 2
        self._constant = tf.linalg.matvec(kernel, unexcited, transpose_a=True) + bias + half_flipped
        if table.still is not None:
            self._constant += per_qubit(table.still)
        self._cosine, self._sine = -half_flipped, per_qubit(table.mixed) / 2
        self._rounding = quantum.rounding

    def table(self) -> ExcitationTable:
        """Return the table and the later layers as arrays."""
        layers = tuple(
            Dense(kernel.numpy(), bias.numpy(), _name_of(activation)) for kernel, bias, activation in self._layers
        )
        constant, cosine, sine = (part.numpy() for part in (self._constant, self._cosine, self._sine))
        return ExcitationTable(constant, cosine, sine, _name_of(self._activation), layers, self._rounding)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.int32, name="qubit"),
            tf.TensorSpec([None], tf.float32, name="angle"),
        ],
        autograph=False,
    )
    def predict(self, qubit: tf.Tensor, angle: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the answers (see `answers`) for excited qubits (batch,) and angles (batch,) in rad."""
        return answers(self.predictions(qubit, angle), self._classes)

    def predictions(self, qubit: tf.Tensor, angle: tf.Tensor) -> tf.Tensor:
        """Return the predictions of `predict`, float64 (batch,) or (batch, classes), without tf.function."""
        rotation = tf.cast(angle, PRECISION)[:, None]
        values = self._activation(
            tf.gather(self._constant, qubit)
            + tf.gather(self._cosine, qubit) * tf.cos(rotation)
            + tf.gather(self._sine, qubit) * tf.sin(rotation)
        )
        for kernel, bias, activation in self._layers:
            values = activation(values @ kernel + bias)
        return predictions_of(values if values.shape[1] == self._outputs else two_classes(values))


def _layer(dense: Dense) -> _Layer:
    activation = log if dense.activation == "log" else tf_keras.activations.get(dense.activation)
    return tf.constant(dense.kernel), tf.constant(dense.bias), activation


def _sums(quantum: QuantumLayer) -> Iterator[_Layer]:
    """Yield the linear layer from strings to readouts, unless the strings are the readouts or those of the head."""
    network = quantum.simulator.network
    if not network.joint and network.sums.coefficients is not None:
        constants = tf.constant(network.sums.constants)
        bias = tf.zeros_like(constants) if quantum.centered else constants
        yield tf.constant(network.sums.coefficients), bias, tf.identity


class ServableCircuit(tf.Module):
    """Network for features or states with fixed weights, which TensorFlow Serving can load.

    `predict` takes table rows, (batch, columns): float32 states, or features in the dtype `FeatureLayout.row_type`,
    which it scales. It returns the answers, see `answers`.
    """

    def __init__(self, model: tf_keras.Model, layout: data.FeatureLayout) -> None:
        """Create the `predict` function from a model and the layout of its rows."""
        super().__init__()
        # Not an attribute: attributes of a module are saved with it, and a simulator cannot be saved.
        prediction = _prediction(model)
        ((name, (shape, _)),) = layout.preparation.inputs(model.get_layer("quantum").simulator.network.qubits).items()

        def predict(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            return answers(prediction({name: _model_input(rows, layout)}), layout.predicted_classes)

        columns = len(layout.features) or shape[0]
        self.predict = tf.function(
            predict,
            input_signature=[tf.TensorSpec([None, columns], tf.as_dtype(layout.row_type), name=layout.row_input)],
            autograph=False,
        )


def answers(predictions: tf.Tensor, classes: Sequence[str]) -> dict[str, tf.Tensor]:
    """Return the outputs of a SavedModel by name.

    Args:
        predictions: Predictions, float64 (batch,), or probabilities of the classes, (batch, classes).
        classes: Names of the classes.

    Returns:
        `prediction`, float32 (batch,). With classes, `prediction` is the name of the most probable class, text
        (batch,), and `probabilities` are float32 (batch, classes), in the order of the classes.
    """
    if not classes:
        return {"prediction": tf.cast(predictions, tf.float32)}
    names = tf.constant(classes)
    best = tf.gather(names, tf.argmax(predictions, axis=1))
    return {"prediction": best, "probabilities": tf.cast(predictions, tf.float32)}


def servable_of(model: tf_keras.Model, config: ExperimentConfig, layout: data.FeatureLayout) -> tf.Module:
    """Return the servable form of a model, whose `predict` TensorFlow Serving can load.

    Args:
        model: Trained model.
        config: Experiment of the model.
        layout: Layout of the rows to predict.
    """
    if layout.preparation.kind == "excitation":
        return ServableModel(model, classes=layout.predicted_classes)
    if not registry.declaration(model.get_layer("quantum").simulator.name).builtin_operations:
        # TensorFlow Serving has built-in operations only.
        served = build_model(config.model_copy(update={"simulator": "statevector"}))
        served.set_weights(model.get_weights())
        model = served
    return ServableCircuit(model, layout)


def exact_predictor(model: tf_keras.Model, weights: _Weights | None = None) -> ExactPredictor:
    """Return a function of model inputs that returns predictions from exact readouts, float64 (samples,).

    Args:
        model: Model of the experiment.
        weights: Weights in the order of the trainable variables, or None for the current weights of the model.
    """
    if model.get_layer("quantum").simulator.network.preparation.kind == "excitation":
        table = ServableModel(model, weights)
        return lambda inputs: np.asarray(table.predictions(**inputs))
    return simulated_predictor(model, weights)


def simulated_predictor(model: tf_keras.Model, weights: _Weights | None = None) -> ExactPredictor:
    """Return `exact_predictor` with the simulator of the model, also for excitations."""
    prediction = tf.function(_prediction(model, weights), autograph=False)

    def in_batches(inputs: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        starts = range(0, len(next(iter(inputs.values()))), _BATCH)
        batches = ({name: values[start : start + _BATCH] for name, values in inputs.items()} for start in starts)
        outputs = model.output_shape[1]
        empty = np.zeros([0, outputs] if outputs > 1 else 0)
        return np.concatenate([empty, *(prediction(batch).numpy() for batch in batches)])

    return in_batches


def _prediction(
    model: tf_keras.Model, weights: _Weights | None = None
) -> Callable[[Mapping[str, tf.Tensor]], tf.Tensor]:
    """Return a function of model inputs that returns the predictions, float64 (batch,) or (batch, classes)."""
    fixed = [_tensor(each) for each in (model.trainable_variables if weights is None else weights)]
    quantum = model.get_layer("quantum")

    def prediction(inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        strings, unexcited = quantum.strings(inputs, None, fixed[0])
        return predictions_of(model_outputs(model, strings - unexcited, fixed))

    return prediction


def _model_input(rows: tf.Tensor, layout: data.FeatureLayout) -> tf.Tensor:
    """Return rotation angles, float32 (batch, qubits), inputs of circuits, states of features, or states unchanged."""
    if not layout.features:
        return rows
    if layout.preparation.kind == "state":
        return tf.cast(normalized_states(tf.cast(rows, PRECISION), layout.amplitudes), tf.float32)
    angles = (tf.cast(rows, PRECISION) - layout.offsets) * layout.factors
    if layout.preparation.kind == "circuit":
        return angles
    missing = layout.preparation.features - len(layout.features)
    return tf.pad(tf.cast(angles, tf.float32), [[0, 0], [0, missing]])


def fresh_mse(model: tf_keras.Model, config: ExperimentConfig, weights: _Weights | None = None) -> float | None:
    """Return the mean squared error on 10,000 fresh samples with exact readouts.

    Only generated excitations have fresh samples. For other data, and other losses, the result is None.

    Args:
        model: Model of the experiment.
        config: Experiment.
        weights: Weights in the order of the trainable variables, or None for those of the model.
    """
    if not config.has_bound:
        return None
    samples = data.sample_fresh(config.qubits, config.seed)
    return float(np.mean((exact_predictor(model, weights)(samples.inputs) - samples.label) ** 2))


def _name_of(activation: Callable[[tf.Tensor], tf.Tensor]) -> str:
    return "linear" if activation is tf.identity else str(activation.__name__)


def _tensor(values: Any) -> tf.Tensor:
    return tf.convert_to_tensor(values)
