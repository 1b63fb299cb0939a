"""Training on rows with two features per qubit, compared with Cirq."""

from pathlib import Path

import cirq
import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from qcnn import data
from qcnn.circuits import circuits
from qcnn.errors import ArtifactError
from qcnn.experiment.parsing import from_mapping
from qcnn.results import export
from tests.exported_models import assert_predicts, readout_by_cirq
from tests.shared_training_runs import train

QUBITS, COLUMNS = 4, 7
FIELDS = {"qubits": QUBITS, "model": "deep", "encoding": "dense", "feature_scaling": "none", "workers": 1}


def _write(path: Path, columns: int) -> npt.NDArray[np.float64]:
    values = np.random.default_rng(7).uniform(-3, 3, size=(30, columns))
    rows = [",".join([*map(repr, row), str(number % 2)]) for number, row in enumerate(values.tolist())]
    path.write_text("\n".join([",".join([*(f"x{k}" for k in range(columns)), "label"]), *rows]) + "\n")
    return values


def test_predictions_of_dense_rows_equal_cirq(tmp_path: Path) -> None:
    values = _write(tmp_path / "rows.csv", COLUMNS)
    fields = {**FIELDS, "epochs": 1, "num_initializations": 1, "data": str(tmp_path / "rows.csv")}
    config = from_mapping(fields)
    dataset = data.read(config)
    train(data.with_file_metadata(config, dataset), dataset, tmp_path / "training")
    export.export(tmp_path / "training", tmp_path / "model")
    model, _ = export.load(tmp_path / "model")
    (parameters,) = model.get_weights()
    ansatz, ring = circuits.build("deep", QUBITS), circuits.ring(QUBITS)
    expected = []
    for row in values:
        rotations = [cirq.rx(angle)(qubit) for angle, qubit in zip(row[:QUBITS], ring, strict=True)]
        rotations += [cirq.ry(angle)(qubit) for angle, qubit in zip(row[QUBITS:], ring, strict=False)]
        given = dict(zip(ansatz.symbols, parameters.tolist(), strict=True))
        expected.append(readout_by_cirq(cirq.Circuit(rotations) + ansatz.circuit, ansatz, given, QUBITS))
    assert_predicts(tmp_path, values, expected, tf.float32, 1e-5)


def test_more_than_two_features_per_qubit_is_one_clear_error(tmp_path: Path) -> None:
    _write(tmp_path / "rows.csv", 2 * QUBITS + 1)
    message = r"^data: must have 1 to 8 columns in addition to label and split, at most two features per qubit\."
    with pytest.raises(ArtifactError, match=message):
        data.read(from_mapping({**FIELDS, "data": str(tmp_path / "rows.csv")}))
