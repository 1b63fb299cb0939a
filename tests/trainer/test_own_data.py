"""Training on data files, from rows to predictions and the report."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from qcnn import data
from qcnn.components.steps import evaluate as step
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping, merge
from qcnn.model import checkpoints
from qcnn.model.history import EpochMetrics
from qcnn.results import export
from qcnn.results.class_scores import Confusion
from qcnn.results.evaluate import EvaluationResult, evaluate, save_predictions
from qcnn.results.predictor import load_predictor
from qcnn.results.report import report_page
from qcnn.trainer.evaluator import evaluate_checkpoints
from tests.shared_training_runs import train


@dataclasses.dataclass(frozen=True)
class Trained:
    """Training run on a data file with its results."""

    config: ExperimentConfig
    dataset: data.Dataset
    folder: Path
    history: tuple[EpochMetrics, ...]
    evaluation: EvaluationResult


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
    """Regression on two features, where the label does not depend on the second."""
    units = np.random.default_rng(3).uniform(-1, 1, (80, 2))
    rows = "\n".join(f"{x},{50 * y},{0.6 * np.cos(1.5 * x) + 3}" for x, y in units)
    return _trained(tmp_path_factory.mktemp("regression"), f"x,y,label\n{rows}\n", encoding="ry", epochs=60)


def test_regression_is_trained_and_has_r2(regression: Trained) -> None:
    metrics, label = regression.evaluation.metrics, regression.dataset.test.label
    error = np.mean((regression.evaluation.predictions - label) ** 2)
    assert metrics["mse"] == pytest.approx(error)
    assert metrics["r2"] == pytest.approx(1 - error / np.var(label))
    assert metrics["r2"] > 0.9
    # A regression has no accuracy, and a data file has no fresh samples.
    assert not [name for name in metrics if "accuracy" in name or "fresh" in name]
    assert checkpoints.load_history(regression.folder / "training") == regression.history
    assert all(epoch.train_accuracy is None for epoch in regression.history)


def test_checkpoint_and_model_have_layout_and_source(regression: Trained) -> None:
    _, description = export.load(regression.folder / "model")
    saved = checkpoints.load_latest(regression.folder / "training" / "checkpoints")
    assert saved is not None
    assert saved.source is not None
    assert saved.layout == regression.dataset.layout
    assert data.parse_description(description) == (saved.layout, saved.source)
    assert description["provenance"]["data_sha256"] == saved.source.sha256
    assert saved.fresh_mse is None


def test_predictor_and_saved_model_scale_as_in_training(regression: Trained) -> None:
    columns = {name: np.array(values) for name, values in regression.evaluation.columns.items()}
    predictor = load_predictor(regression.folder / "model")
    assert predictor.layout.columns == ("x", "y")
    found = predictor.predict(predictor.layout.inputs(columns))
    np.testing.assert_allclose(found, regression.evaluation.predictions, atol=1e-5)
    served = tf.saved_model.load(str(regression.folder / "model" / "saved_model")).signatures["serving_default"]
    features = tf.constant(np.stack([columns["x"], columns["y"]], axis=1), tf.float32)
    np.testing.assert_allclose(served(features=features)["prediction"], regression.evaluation.predictions, atol=1e-5)
    # The batch size is arbitrary.
    assert served(features=features[:1])["prediction"].shape == (1,)


def test_report_of_regression_has_only_its_figures(regression: Trained) -> None:
    evaluation = regression.evaluation
    given = (regression.history, evaluation.samples, evaluation.predictions, evaluation.metrics)
    page = report_page(evaluation.description, *given)
    for present in ("Test R2<b>", "Prediction against label", "Error by split", "data_sha256"):
        assert present in page
    for absent in ("Sign accuracy", "Fresh MSE", "MSE lower bound", "Error by qubit", "Prediction against angle"):
        assert absent not in page


def test_save_predictions_has_features_of_file(regression: Trained, tmp_path: Path) -> None:
    save_predictions(regression.evaluation, tmp_path / "predictions")
    lines = (tmp_path / "predictions" / "predictions.csv").read_text().splitlines()
    assert lines[0] == "row,x,y,label,prediction"
    rows = (regression.folder / "rows.csv").read_text().splitlines()[1:]
    assert len(lines) == 1 + len(regression.dataset.test)
    for line in lines[1:]:
        ((row, values, prediction),) = re.findall(r"^(\d+),(.*),(.*)$", line)
        assert values == rows[int(row) - 1]
        assert float(prediction) in regression.evaluation.predictions


def test_evaluate_checkpoints_of_regression_has_val_loss_only(regression: Trained, tmp_path: Path) -> None:
    config = regression.config
    workdir = regression.folder / "training"
    arguments = (config, regression.dataset, lambda: workdir, tmp_path / "own", tmp_path / "logs")
    (result,) = evaluate_checkpoints(*arguments)
    assert result.val_loss == pytest.approx(regression.history[-1].val_loss, rel=1e-6)
    assert (result.val_accuracy, result.fresh_mse) == (None, None)
    assert (tmp_path / "own" / "evaluation.csv").read_text().splitlines()[0] == "epoch,val_loss"
    assert evaluate_checkpoints(*arguments) == (result,)


def test_resume_with_moved_file_requires_equal_rows(regression: Trained, tmp_path: Path) -> None:
    (moved := tmp_path / "moved.csv").write_bytes((regression.folder / "rows.csv").read_bytes())
    config = regression.config.model_copy(update={"data": str(moved)})
    assert train(config, data.read(config), regression.folder / "training") == regression.history
    moved.write_text(moved.read_text().replace("\n", "\n0.5,0.5,3.1\n", 2))
    with pytest.raises(ArtifactError, match=r"^dataset: the folder's checkpoint was trained on other samples"):
        train(config, data.read(config), regression.folder / "training")


def test_centered_readouts_of_zero_angles_are_zero(regression: Trained) -> None:
    model, _ = export.load(regression.folder / "model")
    quantum = model.get_layer("quantum")
    zeros = {"features": tf.zeros([1, 4])}
    readouts, unexcited = quantum.strings(zeros)
    np.testing.assert_allclose(readouts, unexcited, atol=1e-12)
    assert np.abs(unexcited).max() > 0.01


def test_evaluate_step_of_regression_has_no_confusion_matrix(regression: Trained, tmp_path: Path) -> None:
    folders = (str(regression.folder / name) for name in ("model", "dataset", "training"))
    paths = (str(tmp_path / name) for name in ("predictions", "metrics", "report.html", "baselines"))
    metrics, confusion, metadata = step.evaluate(*folders, *paths)
    assert metrics == regression.evaluation.metrics
    assert confusion == Confusion((), ())
    assert regression.dataset.source is not None
    assert metadata["data_sha256"] == regression.dataset.source.sha256
    step.save_confusion(confusion, str(tmp_path / "confusion"))
    assert json.loads((tmp_path / "confusion").read_text()) == {"labels": [], "matrix": []}


@pytest.mark.long
@pytest.mark.parametrize("words", [pytest.param({"simulator": "tfq"}, marks=pytest.mark.tfq), {"shots": 1000}], ids=str)
def test_classes_are_trained_with_tfq_and_with_shots(tmp_path: Path, words: dict[str, Any]) -> None:
    units = np.random.default_rng(5).uniform(-1, 1, (60, 3))
    rows = "\n".join(f"{x},{y},{z},{int(x > 0)}" for x, y, z in units)
    trained = _trained(tmp_path, f"x,y,z,label\n{rows}\n", encoding="rx", epochs=30, **words)
    assert trained.evaluation.metrics["accuracy"] > 0.8
    # The saved model has no TensorFlow Quantum operations.
    served = tf.saved_model.load(str(tmp_path / "model" / "saved_model")).signatures["serving_default"]
    columns = trained.evaluation.columns
    features = tf.constant(np.stack([columns[name] for name in "xyz"], axis=1), tf.float32)
    exact = load_predictor(tmp_path / "model").predict(trained.dataset.test.inputs)
    np.testing.assert_allclose(served(features=features)["prediction"], exact, atol=1e-4)
