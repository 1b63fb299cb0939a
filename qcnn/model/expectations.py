"""Readouts of a circuit, and their Jacobian, on arrays."""

import dataclasses

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qcnn.circuits.ansatz import Ansatz
from qcnn.circuits.formats.loading import embed_ansatz
from qcnn.model.circuit_readouts import CircuitReadouts, Encoding
from qcnn.model.network import PRECISION

_Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class ArrayFunction:
    """Readouts of a circuit as a function of arrays.

    Attributes:
        ansatz: Circuit, with inputs unless features are amplitudes.
        qubits: Argument of `CircuitReadouts`.
        encoding: Argument of `CircuitReadouts`.
        simulator: Simulator, or `auto`.
        noise: Noise as the field of an experiment.
    """

    ansatz: Ansatz
    qubits: int | None
    encoding: Encoding
    simulator: str
    noise: str

    def readouts(self, parameters: _Floats, features: _Floats) -> _Floats:
        """Return the readouts, float64 (rows, readouts).

        Args:
            parameters: Circuit parameters, (parameters,).
            features: Features of each row, (rows, features).
        """
        return np.asarray(self._readouts_of(self.ansatz)(tf.constant(parameters), tf.constant(features)))

    def readouts_and_jacobian(
        self, parameters: _Floats, features: _Floats, *, of_parameters: bool
    ) -> tuple[_Floats, _Floats]:
        """Return the readouts, and their derivatives, float64.

        Args:
            parameters: Circuit parameters, (parameters,).
            features: Features of each row, (rows, features).
            of_parameters: Whether the derivatives are those of the parameters instead of the features.

        Returns:
            The readouts, (rows, readouts), and the derivatives, (rows, readouts, parameters or features).
        """
        if self.encoding == "amplitude":
            function = self._readouts_of(self.ansatz)
            if of_parameters:
                return self._by_row(function, parameters, features)
            return _by_readout(function, parameters, features)
        # With parameters as further inputs, the gradient of a sum over the rows has the derivatives of each row.
        inputs = (*self.ansatz.inputs, *self.ansatz.symbols)
        function = self._readouts_of(dataclasses.replace(self.ansatz, symbols=(), inputs=inputs))
        rows = np.concatenate([features, np.tile(parameters, (len(features), 1))], axis=1)
        values, jacobian = _by_readout(function, np.zeros(0), rows)
        count = len(self.ansatz.inputs)
        return values, jacobian[:, :, count:] if of_parameters else jacobian[:, :, :count]

    def _readouts_of(self, ansatz: Ansatz) -> CircuitReadouts:
        return CircuitReadouts(
            embed_ansatz(ansatz, "circuit.json"),
            qubits=self.qubits,
            encoding=self.encoding,
            simulator=self.simulator,
            noise=self.noise,
            precision="complex128",
        )

    def _by_row(self, function: CircuitReadouts, parameters: _Floats, features: _Floats) -> tuple[_Floats, _Floats]:
        """Return the readouts and their derivatives for the parameters, one row after the other."""

        @tf.function(input_signature=[tf.TensorSpec([1, features.shape[1]], PRECISION)], autograph=False)
        def of_row(row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            values_of = tf.constant(parameters)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(values_of)
                values = function(values_of, row)[0]
                columns = tf.unstack(values)
            zero = tf.UnconnectedGradients.ZERO
            return values, tf.stack(
                [tape.gradient(column, values_of, unconnected_gradients=zero) for column in columns]
            )

        readouts, slopes = len(self.ansatz.readouts), len(parameters)
        values, jacobian = np.zeros((len(features), readouts)), np.zeros((len(features), readouts, slopes))
        for number in range(len(features)):
            values[number], jacobian[number] = of_row(tf.constant(features[number : number + 1]))
        return values, jacobian


def _by_readout(function: CircuitReadouts, parameters: _Floats, features: _Floats) -> tuple[_Floats, _Floats]:
    """Return the readouts and their derivatives for the features, one readout after the other."""
    rows = tf.constant(features)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(rows)
        values = function(tf.constant(parameters), rows)
        columns = tf.unstack(values, axis=1)
    jacobian = np.stack([tape.gradient(column, rows).numpy() for column in columns], axis=1)
    return np.asarray(values.numpy()), jacobian
