"""Trainings on a person's own data, from the file's rows to predictions and the report."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from qcnn import data
from qcnn.components.steps import evaluate as step
from qcnn.errors import ArtifactError
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping, merge
from qcnn.model import checkpoints
from qcnn.model.history import EpochMetrics, load_history
from qcnn.results import export
from qcnn.results.evaluate import Evaluation, evaluate, save_predictions
from qcnn.results.export import load_predictor
from qcnn.results.report import report_page
from qcnn.trainer.evaluator import evaluate_beside
from tests.small_trainings import train


@dataclasses.dataclass(frozen=True)
class Trained:
    """A finished training of a file, and what became of it."""

    config: ExperimentConfig
    dataset: data.Dataset
    folder: Path
    history: tuple[EpochMetrics, ...]
    evaluation: Evaluation


def _trained(folder: Path, rows: str, **words: Any) -> Trained:
    (folder / "rows.csv").write_text(rows)
    base = {"qubits": 4, "workers": 1, "strategy": "none", "data": str(folder / "rows.csv")}
    config = from_mapping(merge({**base, "options": {"profile_batches": ""}}, words))
    dataset = data.read(config)
    config = data.with_file_metadata(config, dataset)
    history = train(config, dataset, folder / "training")
    export.export(folder / "training", folder / "model")
    data.save(dataset, folder / "dataset")
    evaluation = evaluate(folder / "model", data.load(folder / "dataset"))
    return Trained(config, dataset, folder, history, evaluation)


@pytest.fixture(scope="module")
def regression(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Of two features, the second of which counts for nothing in the label."""
    units = np.random.default_rng(3).uniform(-1, 1, (80, 2))
    rows = "\n".join(f"{x},{50 * y},{0.6 * np.cos(1.5 * x) + 3}" for x, y in units)
    return _trained(tmp_path_factory.mktemp("regression"), f"x,y,label\n{rows}\n", encoding="ry", epochs=60)


def test_a_regression_is_learnt_and_measured_by_what_it_explains(regression: Trained) -> None:
    metrics, label = regression.evaluation.metrics, regression.dataset.test.label
    error = np.mean((regression.evaluation.predictions - label) ** 2)
    assert metrics["mse"] == pytest.approx(error)
    assert metrics["r2"] == pytest.approx(1 - error / np.var(label))
    assert metrics["r2"] > 0.9
    # There is no accuracy of it, and there are no samples but those of the file.
    assert not [name for name in metrics if "accuracy" in name or "fresh" in name]
    assert load_history(regression.folder / "training" / "history.csv") == regression.history
    assert all(epoch.train_accuracy is None for epoch in regression.history)


def test_checkpoint_and_model_say_how_rows_are_read_and_where_they_are_from(regression: Trained) -> None:
    _, description = export.load(regression.folder / "model")
    saved = checkpoints.load_latest(regression.folder / "training" / "checkpoints")
    assert saved is not None
    assert saved.source is not None
    assert saved.layout == regression.dataset.layout
    assert data.described(description) == (saved.layout, saved.source)
    assert description["provenance"]["data_sha256"] == saved.source.sha256
    assert saved.fresh_mse is None


def test_new_rows_are_scaled_as_those_that_were_trained_on(regression: Trained) -> None:
    columns = {name: np.array(values) for name, values in regression.evaluation.columns.items()}
    predictor = load_predictor(regression.folder / "model")
    assert predictor.layout.columns == ("x", "y")
    found = predictor.predict(predictor.layout.inputs(columns))
    np.testing.assert_allclose(found, regression.evaluation.predictions, atol=1e-5)
    served = tf.saved_model.load(str(regression.folder / "model" / "saved_model")).signatures["serving_default"]
    features = tf.constant(np.stack([columns["x"], columns["y"]], axis=1), tf.float32)
    np.testing.assert_allclose(served(features=features)["prediction"], regression.evaluation.predictions, atol=1e-5)
    # Any number of rows at a time.
    assert served(features=features[:1])["prediction"].shape == (1,)


def test_the_report_shows_what_there_is(regression: Trained) -> None:
    evaluation = regression.evaluation
    given = (regression.history, evaluation.samples, evaluation.predictions, evaluation.metrics)
    page = report_page(evaluation.description, *given)
    for shown in ("Test R2<b>", "Prediction against label", "Error by split", "data_sha256"):
        assert shown in page
    for left_out in ("Sign accuracy", "Fresh MSE", "MSE lower bound", "Error by qubit", "Prediction against angle"):
        assert left_out not in page


def test_predictions_stand_beside_the_features_of_the_file(regression: Trained, tmp_path: Path) -> None:
    save_predictions(regression.evaluation, tmp_path / "predictions")
    lines = (tmp_path / "predictions" / "predictions.csv").read_text().splitlines()
    assert lines[0] == "x,y,label,prediction"
    rows = np.loadtxt(regression.folder / "rows.csv", delimiter=",", skiprows=1)
    for line in lines[1:]:
        x, y, label, _ = map(float, line.split(","))
        assert np.min(np.abs(rows - [x, y, label]).max(axis=1)) < 1e-4


def test_an_evaluator_measures_what_there_is(regression: Trained, tmp_path: Path) -> None:
    config = regression.config
    workdir = regression.folder / "training"
    (found,) = evaluate_beside(config, regression.dataset, lambda: workdir, tmp_path / "own", tmp_path / "logs")
    assert found.val_loss == pytest.approx(regression.history[-1].val_loss, rel=1e-6)
    assert (found.val_accuracy, found.fresh_mse) == (None, None)
    assert (tmp_path / "own" / "evaluation.csv").read_text().splitlines()[0] == "epoch,val_loss"
    again = evaluate_beside(config, regression.dataset, lambda: workdir, tmp_path / "own", tmp_path / "logs")
    assert again == (found,)


def test_a_training_goes_on_with_the_same_rows_wherever_they_are(regression: Trained, tmp_path: Path) -> None:
    (moved := tmp_path / "moved.csv").write_bytes((regression.folder / "rows.csv").read_bytes())
    config = regression.config.model_copy(update={"data": str(moved)})
    assert train(config, data.read(config), regression.folder / "training") == regression.history
    moved.write_text(moved.read_text().replace("\n", "\n0.5,0.5,3.1\n", 2))
    with pytest.raises(ArtifactError, match=r"^dataset: the folder's checkpoint was trained on other samples"):
        train(config, data.read(config), regression.folder / "training")


def test_a_row_of_zeros_is_what_centred_readouts_are_centred_by(regression: Trained) -> None:
    model, _ = export.load(regression.folder / "model")
    quantum = model.get_layer("quantum")
    zeros = {"features": tf.zeros([1, 4])}
    readouts, unturned = quantum.readouts(zeros)
    np.testing.assert_allclose(readouts, unturned, atol=1e-12)
    assert np.abs(unturned).max() > 0.01


def test_the_step_of_a_pipeline_leaves_no_confusion_matrix_of_a_regression(regression: Trained, tmp_path: Path) -> None:
    folders = (str(regression.folder / name) for name in ("model", "dataset", "training"))
    paths = (str(tmp_path / name) for name in ("predictions", "metrics", "report.html"))
    metrics, matrix, metadata = step.evaluate(*folders, *paths)
    assert metrics == regression.evaluation.metrics
    assert matrix == []
    assert regression.dataset.source is not None
    assert metadata["data_sha256"] == regression.dataset.source.sha256
    step.save_confusion(matrix, str(tmp_path / "confusion"))
    assert json.loads((tmp_path / "confusion").read_text()) == {"labels": [], "matrix": []}


@pytest.mark.long
@pytest.mark.parametrize("words", [{"simulator": "tfq"}, {"shots": 1000}], ids=str)
def test_classes_are_learnt_from_features_with_any_simulator_and_from_shots(
    tmp_path: Path, words: dict[str, Any]
) -> None:
    units = np.random.default_rng(5).uniform(-1, 1, (60, 3))
    rows = "\n".join(f"{x},{y},{z},{int(x > 0)}" for x, y, z in units)
    trained = _trained(tmp_path, f"x,y,z,label\n{rows}\n", encoding="rx", epochs=30, **words)
    assert trained.evaluation.metrics["accuracy"] > 0.8
    # What serves them has no operation of TensorFlow Quantum's.
    served = tf.saved_model.load(str(tmp_path / "model" / "saved_model")).signatures["serving_default"]
    columns = trained.evaluation.columns
    features = tf.constant(np.stack([columns[name] for name in "xyz"], axis=1), tf.float32)
    exact = load_predictor(tmp_path / "model").predict(trained.dataset.test.inputs)
    np.testing.assert_allclose(served(features=features)["prediction"], exact, atol=1e-4)
