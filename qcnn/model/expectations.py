"""Readouts of a circuit with inputs, and their Jacobian, on arrays."""

import dataclasses

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qcnn.circuits.ansatz import Ansatz
from qcnn.circuits.formats.loading import embed_ansatz
from qcnn.model.network import PRECISION
from qcnn.model.quantum_layer import CircuitLayer

_Floats = npt.NDArray[np.float64]


def readouts(ansatz: Ansatz, parameters: _Floats, features: _Floats, simulator: str, noise: str) -> _Floats:
    """Return the readouts, float64 (rows, readouts).

    Args:
        ansatz: Circuit with inputs.
        parameters: Circuit parameters, (parameters,).
        features: Inputs of each row, (rows, inputs).
        simulator: Simulator, or `auto`.
        noise: Noise as the field of an experiment.
    """
    layer = _layer(ansatz, simulator, noise)
    layer.set_weights([parameters])
    return np.asarray(layer(tf.constant(features)).numpy())


def readouts_and_jacobian(
    ansatz: Ansatz, parameters: _Floats, features: _Floats, simulator: str, noise: str, *, of_parameters: bool
) -> tuple[_Floats, _Floats]:
    """Return the readouts, and their derivatives, float64 (rows, readouts, parameters) or (rows, readouts, inputs).

    With parameters as further inputs, the gradient of a sum over the rows has the derivatives of each row.

    Args:
        ansatz: Circuit with inputs.
        parameters: Circuit parameters, (parameters,).
        features: Inputs of each row, (rows, inputs).
        simulator: Simulator, or `auto`.
        noise: Noise as the field of an experiment.
        of_parameters: Whether the derivatives are those of the parameters instead of the inputs.
    """
    own = dataclasses.replace(ansatz, symbols=(), inputs=(*ansatz.inputs, *ansatz.symbols))
    layer = _layer(own, simulator, noise)
    rows = tf.constant(np.concatenate([features, np.tile(parameters, (len(features), 1))], axis=1))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(rows)
        values = layer(rows)
        columns = tf.unstack(values, axis=1)
    jacobian = np.stack([tape.gradient(column, rows).numpy() for column in columns], axis=1)
    count = len(ansatz.inputs)
    return np.asarray(values.numpy()), jacobian[:, :, count:] if of_parameters else jacobian[:, :, :count]


def _layer(ansatz: Ansatz, simulator: str, noise: str) -> CircuitLayer:
    text = embed_ansatz(ansatz, "circuit.json")
    return CircuitLayer(text, simulator=simulator, noise=noise, precision="complex128", dtype=PRECISION)
