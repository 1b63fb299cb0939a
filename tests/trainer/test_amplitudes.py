"""Training on rows whose features are amplitudes of states, compared with Cirq."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from qcnn import data
from qcnn.circuits import circuits
from qcnn.errors import ArtifactError, QcnnError
from qcnn.experiment.parsing import from_mapping
from qcnn.results import export
from qcnn.results.batch_prediction import predict_files
from qcnn.results.evaluate import evaluate
from qcnn.results.predictions import PredictionFiles
from qcnn.simulators import batch_of
from qcnn.testing.cirq_readouts import readouts_of_batch
from tests.shared_training_runs import train

# Fewer columns than amplitudes, negative values, values whose squares overflow, and a constant column.
COLUMNS = 11
FIELDS = {"qubits": 4, "model": "deep", "encoding": "amplitude", "workers": 1, "strategy": "none", "epochs": 2}


def _values() -> npt.NDArray[np.float64]:
    values = np.random.default_rng(7).normal(size=(40, COLUMNS))
    values[:, 3] = 0.5
    values[5] *= 1e200
    return values


def _write(path: Path, values: npt.NDArray[np.float64]) -> str:
    names = [f"pixel_{number}" for number in range(values.shape[1])]
    rows = [",".join([*map(repr, row), str(number % 2)]) for number, row in enumerate(values.tolist())]
    path.write_text("\n".join([",".join([*names, "label"]), *rows]) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a training run on amplitudes."""
    folder = tmp_path_factory.mktemp("amplitudes")
    config = from_mapping({**FIELDS, "num_initializations": 1, "data": _write(folder / "rows.csv", _values())})
    dataset = data.read(config)
    train(data.with_file_metadata(config, dataset), dataset, folder / "training")
    export.export(folder / "training", folder / "model")
    data.save(dataset, folder / "dataset")
    return folder


def test_states_are_the_values_divided_by_their_norm(trained: Path) -> None:
    dataset = data.load(trained / "dataset")
    for _, samples in dataset.splits():
        assert samples.row is not None
        values = _values()[samples.row - 1]
        values /= np.abs(values).max(axis=1, keepdims=True)
        expected = np.zeros((len(values), 16))
        expected[:, :COLUMNS] = values / np.linalg.norm(values, axis=1, keepdims=True)
        np.testing.assert_allclose(samples.inputs["state"], expected, atol=1e-7)


def test_predictions_equal_cirq(trained: Path) -> None:
    dataset = data.load(trained / "dataset")
    model, _ = export.load(trained / "model")
    found = evaluate(trained / "model", dataset)
    (parameters,) = model.get_weights()
    preparation = dataset.layout.preparation
    batch = batch_of(preparation, {"state": tf.constant(dataset.test.inputs["state"])})
    expected = readouts_of_batch(circuits.build("deep", 4), 4, parameters, preparation, batch)[:, 0]
    np.testing.assert_allclose(found.predictions, expected, atol=1e-5)
    header = list(found.columns)
    assert header == ["row", *(f"pixel_{number}" for number in range(COLUMNS)), "label", "prediction"]


def test_saved_model_and_files_take_raw_values(trained: Path, tmp_path: Path) -> None:
    values = _values()[:5]
    served = tf.saved_model.load(str(trained / "model" / "saved_model")).signatures["serving_default"]
    answers = served(features=tf.constant(values, tf.float32))["prediction"].numpy()
    output = tmp_path / "predictions.csv"
    summary = predict_files(trained / "model", PredictionFiles(_write(tmp_path / "rows.csv", values), str(output)))
    lines = output.read_text().splitlines()
    assert (summary.rows, lines[0].split(",")[-3:]) == (5, [f"pixel_{COLUMNS - 1}", "label", "prediction"])
    np.testing.assert_allclose([float(line.split(",")[-1]) for line in lines[1:]], answers, atol=1e-5)


def test_row_of_zeros_is_an_error_and_nan_in_the_saved_model(trained: Path, tmp_path: Path) -> None:
    values = _values()[:20]
    values[1] = 0
    message = r"^data: line 3: must have a value other than 0, to be divided by its norm\. Given: zeros$"
    files = PredictionFiles(_write(tmp_path / "rows.csv", values), str(tmp_path / "out.csv"))
    with pytest.raises(ArtifactError, match=message):
        predict_files(trained / "model", files)
    with pytest.raises(ArtifactError, match=message):
        data.read(from_mapping({**FIELDS, "data": files.data}))
    served = tf.saved_model.load(str(trained / "model" / "saved_model")).signatures["serving_default"]
    found = served(features=tf.constant(values[:3], tf.float32))["prediction"].numpy()
    assert np.isnan(found).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("columns", "fields", "message"),
    [
        (17, {}, "data: must have 1 to 16 columns in addition to label and split, at most one feature per amplitude"),
        (
            4,
            {"feature_scaling": "none"},
            "feature_scaling: must be minmax unless encoding is rx, ry, rz, dense or circuit",
        ),
        (4, {"simulator": "lightcone"}, "simulator: "),
    ],
)
def test_what_amplitudes_cannot_have_is_one_clear_error(
    tmp_path: Path, columns: int, fields: dict[str, str], message: str
) -> None:
    path = _write(tmp_path / "rows.csv", np.ones((20, columns)))
    with pytest.raises(QcnnError) as error:
        data.read(from_mapping({**FIELDS, "data": path, **fields}))
    assert str(error.value).startswith(message)
