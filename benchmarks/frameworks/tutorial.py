"""Model of TensorFlow Quantum's QCNN tutorial: AddCircuit, PQC (adjoint gradients), Dense and Adam.

With one feature per qubit, the circuits of the samples are RY rotations, and AddCircuit is omitted.
"""

from collections.abc import Sequence
from typing import Any

import cirq
import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_quantum as tfq
import tf_keras

from benchmarks.frameworks import process
from benchmarks.frameworks.keras_model import KerasModel
from benchmarks.frameworks.layers import layers
from benchmarks.frameworks.network import HIDDEN_UNITS, Batch, FeatureBatch, StepTask
from qcnn.circuits import circuits
from qcnn.circuits.observables import as_pauli_sum


class Tutorial(KerasModel):
    """Keras model of the tutorial, with a compiled training step."""

    def __init__(self, task: StepTask) -> None:
        self._qubits = circuits.ring(task.qubits)
        ansatz = layers(self._qubits) if task.model == "layers" else circuits.build(task.model, task.qubits)
        samples = prepared = tf_keras.Input(shape=(), dtype=tf.string)
        if not task.features:
            prepared = tfq.layers.AddCircuit()(samples, prepend=circuits.cluster_state(self._qubits))
        outputs = tfq.layers.PQC(ansatz.circuit, list(map(as_pauli_sum, ansatz.readouts)))(prepared)
        readouts = tf_keras.Model(samples, outputs)
        if len(ansatz.readouts) > 1:
            outputs = tf_keras.layers.Dense(1)(tf_keras.layers.Dense(HIDDEN_UNITS)(outputs))
        model = tf_keras.Model(samples, outputs)
        # PQC sorts its symbols by name: s0, s1, s10, s11, ...
        self._order = np.argsort([str(symbol) for symbol in ansatz.symbols])
        parameters, *dense = task.weights
        model.set_weights([parameters[self._order], *dense])
        super().__init__(model, readouts)

    def prepare(self, batch: Batch | FeatureBatch) -> Any:
        """Return the circuits of the samples, as in the dataset of the tutorial, and the labels."""
        if isinstance(batch, FeatureBatch):
            rows = batch.features.tolist()
            rotations = [
                cirq.Circuit(cirq.ry(angle)(on) for angle, on in zip(row, self._qubits, strict=True)) for row in rows
            ]
        else:
            rotations = [
                cirq.Circuit(cirq.rx(angle)(self._qubits[qubit])) for qubit, angle, _ in zip(*batch, strict=True)
            ]
        return tfq.convert_to_tensor(rotations), tf.constant(batch.label)

    def gradients(self, prepared: Any) -> tuple[npt.ArrayLike, Sequence[npt.ArrayLike]]:
        """Return readouts (batch, readouts) and gradients."""
        readouts, (parameters, *dense) = super().gradients(prepared)
        return readouts, [np.asarray(parameters)[np.argsort(self._order)], *dense]


if __name__ == "__main__":
    process.run(f"TensorFlow Quantum {tfq.__version__}", process.parser(features=True).parse_args(), Tutorial)
