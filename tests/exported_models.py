"""Predictions of an exported model in every way in which it predicts rows."""

from collections.abc import Sequence
from pathlib import Path

import cirq
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.observables import as_pauli_sum
from qcnn.results.batch_prediction import predict_files
from qcnn.results.predictions import PredictionFiles


def readout_by_cirq(circuit: cirq.AbstractCircuit, ansatz: Ansatz, values: dict[object, float], qubits: int) -> float:
    """Return the first readout of an ansatz on |0...0>.

    Args:
        circuit: Circuit with the ansatz.
        ansatz: Ansatz with the readout.
        values: Values of its symbols.
        qubits: Number of qubits.
    """
    state = cirq.Simulator(dtype=np.complex128).simulate(circuit, values, qubit_order=ring(qubits))
    place: dict[cirq.Qid, int] = {qubit: number for number, qubit in enumerate(ring(qubits))}
    observable = as_pauli_sum(ansatz.readouts[0])
    return float(observable.expectation_from_state_vector(state.final_state_vector, place).real)


def assert_predicts(
    folder: Path, values: npt.NDArray[np.float64], expected: Sequence[float], dtype: tf.DType, tolerance: float
) -> None:
    """Check the SavedModel of the folder `model`, and `predict_files` for `rows.csv`.

    Args:
        folder: Folder of both.
        values: Features of the rows, (rows, features).
        expected: Prediction of each row.
        dtype: Type of the features of the SavedModel.
        tolerance: Allowed error.
    """
    served = tf.saved_model.load(str(folder / "model" / "saved_model")).signatures["serving_default"]
    answers = served(features=tf.constant(values, dtype))["prediction"].numpy()
    np.testing.assert_allclose(answers, expected, atol=tolerance)
    output = folder / "predictions.csv"
    predict_files(folder / "model", PredictionFiles(str(folder / "rows.csv"), str(output)))
    found = [float(line.split(",")[-1]) for line in output.read_text().splitlines()[1:]]
    np.testing.assert_allclose(found, expected, atol=tolerance)
