"""Predictions of an exported model in every way in which it predicts rows."""

from collections.abc import Sequence
from pathlib import Path

import cirq
import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from qcnn import data
from qcnn.artifact_io import save_description
from qcnn.atomic_files import complete_files, sha256_of
from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.circuits.observables import as_pauli_sum
from qcnn.data.samples import FeatureLayout, Source
from qcnn.experiment.config import ExperimentConfig
from qcnn.model.network import build_model
from qcnn.results import predictor_file
from qcnn.results.batch_prediction import predict_files
from qcnn.results.model_folder import FILE, WEIGHTS
from qcnn.results.predictions import PredictionFiles
from qcnn.results.stored_circuit import circuit_content
from qcnn.simulators.structure.gates import fingerprint


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


def random_weights(model: tf_keras.Model, seed: int = 2) -> dict[str, npt.NDArray[np.float64]]:
    """Set random weights, and return them by their names in a weights file."""
    random = np.random.default_rng(seed)
    model.set_weights([random.normal(0, 0.7, each.shape) for each in model.get_weights()])
    names = ("quantum_layer/vars/0", *(f"{layer}/vars/{n}" for layer in ("dense", "dense_1") for n in (0, 1)))
    return {f"layers/{name}": each for name, each in zip(names, model.get_weights(), strict=False)}


def write_model_folder(config: ExperimentConfig, folder: Path, classes: tuple[str, ...] = (), seed: int = 2) -> Path:
    """Write the model folder of a circuit with random weights, without its SavedModel.

    Args:
        config: Experiment with features a, b, c, d, of which the training split has values from 0 to pi / 2.
        folder: New folder.
        classes: Names of the classes.
        seed: Seed of the weights.
    """
    model = build_model(config)
    random_weights(model, seed)
    folder.mkdir(parents=True)
    model.save_weights(folder / WEIGHTS)
    predictor_file.write(circuit_content(config), folder)
    features = config.preparation.features
    kind = {"labels": "classes", "classes": classes} if classes else {}
    scales = (0.0,) * features, (2.0,) * features
    layout = FeatureLayout(config.preparation, tuple("abcd"[:features]), *scales, **kind)  # type: ignore[arg-type]
    description = {
        "experiment": config.model_dump(),
        "dataset_digest": "0",
        "circuit": fingerprint(config.model, config.qubits),
        "training": {"epochs": 1},
        **data.describe(layout, Source("rows.csv", "0")),
        "weights_sha256": sha256_of(folder / WEIGHTS),
    }
    save_description(description, folder / FILE, complete_files(folder))
    return folder
