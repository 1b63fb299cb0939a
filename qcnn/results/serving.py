"""The trained network in a form that others can serve: without a simulator where samples are excitations.

An excitation rotates one qubit, so a table replaces the circuit, and a prediction takes microseconds. Other samples
evolve a state each, by TensorFlow's own operations.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from qcnn import data
from qcnn.experiment import ExperimentConfig
from qcnn.fields import EXCITATIONS
from qcnn.model.network import PRECISION, build_model, dense_layers, model_outputs

# Samples of which states are evolved at a time.
_BATCH = 1024
_Weights: TypeAlias = Sequence[npt.NDArray[Any]]
ExactPredictor: TypeAlias = Callable[[Mapping[str, npt.NDArray[Any]]], npt.NDArray[np.float64]]


class ServableModel(tf.Module):
    """A network of excitations with fixed weights, which any TensorFlow Serving loads.

    A sample rotates one qubit, so each readout, and what enters the first dense layer's activation, is exactly
    a + b cos(angle) + c sin(angle) with a, b and c fixed by qubit and weights: a table of these, (qubits, units)
    each, replaces circuit and first layer.
    """

    def __init__(self, model: tf_keras.Model, weights: _Weights | None = None) -> None:
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
        unexcited = tf.zeros_like(table.unexcited) if quantum.centered else table.unexcited

        def per_qubit(changes: tf.Tensor) -> tf.Tensor:
            units = tf.zeros([changes.shape[0], kernel.shape[1]], PRECISION)
            # One place at a time: all at once would take as many times the memory.
            for change, reached in zip(tf.unstack(changes, axis=1), tf.unstack(table.reached, axis=1), strict=True):
                units += change[:, None] * tf.gather(kernel, reached)
            return units

        half_flipped = per_qubit(table.flipped) / 2
        self._constant = tf.linalg.matvec(kernel, unexcited, transpose_a=True) + bias + half_flipped
        if table.still is not None:
            self._constant += per_qubit(table.still)
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


class ServableCircuit(tf.Module):
    """A network of any other samples with fixed weights, which any TensorFlow Serving loads.

    `predict` takes what a table's rows hold, (batch, columns): states, float32, or features, which it scales, of the
    type that their layout says, float32 or float64. It returns the prediction, float32 (batch,).
    """

    def __init__(self, model: tf_keras.Model, layout: data.FeatureLayout) -> None:
        """Take the weights of a model, and how rows are read."""
        super().__init__()
        # What is an attribute of a module is saved with it, which a simulator cannot be.
        predicted = _prediction(model)
        ((name, (shape, _)),) = layout.preparation.inputs(model.get_layer("quantum").simulator.network.qubits).items()

        def predict(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"prediction": tf.cast(predicted({name: _turned(rows, layout)}), tf.float32)}

        columns = len(layout.features) or shape[0]
        self.predict = tf.function(
            predict,
            input_signature=[tf.TensorSpec([None, columns], tf.as_dtype(layout.row_type), name=name)],
            autograph=False,
        )


def servable_of(model: tf_keras.Model, config: ExperimentConfig, layout: data.FeatureLayout) -> tf.Module:
    """Return a network with the weights of a model, whose `predict` any TensorFlow Serving loads."""
    if layout.preparation.kind == "excitation":
        return ServableModel(model)
    if not model.get_layer("quantum").simulator.compiles:
        # TensorFlow Quantum's operations are in no other server.
        served = build_model(config.model_copy(update={"simulator": "statevector"}))
        served.set_weights(model.get_weights())
        model = served
    return ServableCircuit(model, layout)


def exact_predictor(model: tf_keras.Model, weights: _Weights | None = None) -> ExactPredictor:
    """Return a function of what the model takes of samples, which returns the predictions, float64 (samples,).

    Of exact readouts, whatever the shots; with the model's own weights as they are now, or with others in the order of
    its trainable variables.
    """
    if model.get_layer("quantum").simulator.network.preparation.kind == "excitation":
        table = ServableModel(model, weights)
        return lambda inputs: np.asarray(table.predictions(**inputs))
    predicted = tf.function(_prediction(model, weights), autograph=False)

    def in_batches(inputs: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        starts = range(0, len(next(iter(inputs.values()))), _BATCH)
        shares = ({name: values[start : start + _BATCH] for name, values in inputs.items()} for start in starts)
        return np.concatenate([np.zeros(0), *(predicted(share).numpy() for share in shares)])

    return in_batches


def _prediction(
    model: tf_keras.Model, weights: _Weights | None = None
) -> Callable[[Mapping[str, tf.Tensor]], tf.Tensor]:
    """Return a function of what the model takes of samples, which returns the predictions, float64 (batch,)."""
    fixed = [_tensor(each) for each in (model.trainable_variables if weights is None else weights)]
    quantum = model.get_layer("quantum")

    def prediction(inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        readouts, unturned = quantum.readouts(inputs, None, fixed[0])
        return model_outputs(model, readouts - unturned, fixed)[:, 0]

    return prediction


def _turned(rows: tf.Tensor, layout: data.FeatureLayout) -> tf.Tensor:
    """Return what qubits are turned by, float32 (batch, qubits), of features (batch, features); states as they are."""
    if not layout.features:
        return rows
    angles = (tf.cast(rows, PRECISION) - layout.offsets) * layout.factors
    missing = layout.preparation.features - len(layout.features)
    return tf.pad(tf.cast(angles, tf.float32), [[0, 0], [0, missing]])


def fresh_mse(model: tf_keras.Model, config: ExperimentConfig, weights: _Weights | None = None) -> float | None:
    """Return the mean squared error over an experiment's 10,000 fresh samples, of exact readouts whatever its shots.

    None of data that are not drawn, of which there are no others.
    """
    if config.data != EXCITATIONS:
        return None
    samples = data.sample_fresh(config.qubits, config.seed)
    return float(np.mean((exact_predictor(model, weights)(samples.inputs) - samples.label) ** 2))


def _tensor(values: Any) -> tf.Tensor:
    return tf.convert_to_tensor(values)
