"""Training on classes with names, from rows to probabilities, metrics, the SavedModel and the report."""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from qcnn import data
from qcnn.circuits import circuits
from qcnn.circuits.formats import cirq_json
from qcnn.circuits.formats.embedded import embed
from qcnn.components.steps import evaluate as step
from qcnn.data.labels import format_names
from qcnn.errors import ArtifactError
from qcnn.experiment.parsing import from_mapping
from qcnn.results import export
from qcnn.results.batch_prediction import predict_files
from qcnn.results.class_scores import scores_of_probabilities
from qcnn.results.evaluate import evaluate, save_predictions
from qcnn.results.predictions import PredictionFiles
from qcnn.simulators import batch_of
from qcnn.testing.cirq_readouts import readouts_of_batch
from qcnn.trainer.evaluator import evaluate_checkpoints
from tests.class_runs import NAMES, Trained, trained_on
from tests.shared_training_runs import train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained_on(tmp_path_factory.mktemp("classes"), NAMES)


def test_classes_are_learned_and_scored(trained: Trained) -> None:
    evaluation = trained.evaluation
    assert evaluation.predictions.shape == (len(trained.dataset.test), 3)
    np.testing.assert_allclose(evaluation.predictions.sum(axis=1), 1, rtol=1e-12)
    expected = scores_of_probabilities(trained.dataset.test.label, evaluation.predictions, NAMES)
    assert {name: evaluation.metrics[name] for name in expected} == expected
    assert evaluation.metrics["accuracy"] > 0.85
    assert not {"mse", "fresh_mse"} & evaluation.metrics.keys()


def test_order_of_names_does_not_change_numbers(trained: Trained, tmp_path: Path) -> None:
    # In the order of code points, these names have the numbers of the others.
    other = trained_on(tmp_path / "other", ("A", "b", "ü"))
    assert other.evaluation.predictions.tolist() == trained.evaluation.predictions.tolist()
    assert other.evaluation.metrics["recall_ü"] == trained.evaluation.metrics["recall_cat"]


def _answers(folder: Path, rows: npt.NDArray[np.float64]) -> dict[str, tf.Tensor]:
    served = tf.saved_model.load(str(folder / "model" / "saved_model")).signatures["serving_default"]
    return dict(served(features=tf.constant(rows, tf.float32)))


def test_saved_model_returns_names_and_probabilities(trained: Trained) -> None:
    columns = trained.evaluation.columns
    answers = _answers(trained.folder, np.stack([columns["x"], columns["y"]], axis=1))
    np.testing.assert_allclose(answers["probabilities"], trained.evaluation.predictions, atol=1e-5)
    assert [name.decode() for name in answers["prediction"].numpy()] == columns["prediction"]


def test_predictions_have_names_and_a_probability_of_each_class(trained: Trained, tmp_path: Path) -> None:
    save_predictions(trained.evaluation, tmp_path / "predictions")
    lines = (tmp_path / "predictions" / "predictions.csv").read_text().splitlines()
    assert lines[0] == "row,x,y,label,prediction,probability_ant,probability_bee,probability_cat"
    assert set(trained.evaluation.columns["label"]) == set(NAMES)
    files = PredictionFiles(str(trained.folder / "rows.csv"), str(tmp_path / "all.csv"), str(tmp_path / "all.html"))
    summary = predict_files(trained.folder / "model", files)
    assert summary.rows == 90
    assert summary.metrics["accuracy"] > 0.85
    assert summary.metrics.keys() >= {"loss", "brier_score", "balanced_accuracy", "recall_ant"}
    assert (tmp_path / "all.csv").read_text().splitlines()[0].startswith("x,y,label,prediction,probability_ant,")
    assert "Confusion matrix" in (tmp_path / "all.html").read_text()


def test_unknown_class_in_predicted_file_is_one_clear_error(trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x,y,label\n0.1,0.2,ant\n0.1,0.2,dog\n")
    message = rf"^data: line 3, column label: must be a class of training: {format_names(NAMES)}\. Given: dog$"
    with pytest.raises(ArtifactError, match=message):
        predict_files(trained.folder / "model", PredictionFiles(str(tmp_path / "rows.csv"), str(tmp_path / "o.csv")))
    assert not (tmp_path / "o.csv").exists()


def test_step_writes_confusion_matrix_and_report_by_class_names(trained: Trained, tmp_path: Path) -> None:
    folders = (str(trained.folder / name) for name in ("model", "dataset", "training"))
    outputs = (str(tmp_path / name) for name in ("predictions", "metrics", "report.html", "baselines"))
    metrics, confusion, _ = step.evaluate(*folders, *outputs)
    assert metrics == trained.evaluation.metrics
    step.save_confusion(confusion, str(tmp_path / "confusion"))
    saved = json.loads((tmp_path / "confusion").read_text())
    assert saved["labels"] == list(NAMES)
    assert np.trace(saved["matrix"]) == round(metrics["accuracy"] * len(trained.dataset.test))
    page = (tmp_path / "report.html").read_text()
    for present in ("Test loss<b>", "Balanced accuracy<b>", "Confusion matrix", "Cross-entropy of every epoch", "cat"):
        assert present in page
    for absent in ("Sign accuracy", "MSE", "lower bound"):
        assert absent not in page


def test_evaluator_reports_the_cross_entropy(trained: Trained, tmp_path: Path) -> None:
    workdir = trained.folder / "training"
    (result,) = evaluate_checkpoints(trained.config, trained.dataset, lambda: workdir, tmp_path / "o", tmp_path / "l")
    trained_loss = trained.evaluation.metrics["val_loss"]
    assert result.val_loss == pytest.approx(trained_loss, rel=1e-6)
    assert result.fresh_mse is None


def test_shots_have_metrics_with_and_without_them(tmp_path: Path) -> None:
    sampled = trained_on(tmp_path / "shots", NAMES, epochs=2, shots=200)
    metrics = sampled.evaluation.metrics
    assert metrics["exact_loss"] != metrics["loss"]
    assert metrics["exact_loss"] == pytest.approx(metrics["loss"], rel=0.5)


def test_two_generated_classes_use_one_readout(tmp_path: Path) -> None:
    fields = {"qubits": 4, "rounds": 20, "model": "deep", "epochs": 3, "loss": "cross_entropy"}
    config = from_mapping({**fields, "workers": 1, "strategy": "none", "num_initializations": 1})
    dataset = data.generate(config)
    train(config, dataset, tmp_path / "training")
    export.export(tmp_path / "training", tmp_path / "model")
    found = evaluate(tmp_path / "model", dataset)
    np.testing.assert_allclose(found.predictions.sum(axis=1), 1, rtol=1e-12)
    assert {"roc_auc", "recall_1"} <= found.metrics.keys()
    served = tf.saved_model.load(str(tmp_path / "model" / "saved_model")).signatures["serving_default"]
    inputs = {name: tf.constant(values) for name, values in dataset.test.inputs.items()}
    np.testing.assert_allclose(served(**inputs)["probabilities"], found.predictions, atol=1e-5)
    (tmp_path / "rows.csv").write_text("qubit,angle,label\n0,0.1,1\n3,-3,-1\n")
    summary = predict_files(tmp_path / "model", PredictionFiles(str(tmp_path / "rows.csv"), str(tmp_path / "o.csv")))
    assert (summary.rows, summary.metrics["recall_1"] in (0, 1)) == (2, True)


def test_each_readout_is_the_logit_of_a_class_with_head_softmax(tmp_path: Path) -> None:
    found = trained_on(tmp_path / "logits", NAMES, head="softmax", qubits=6, epochs=15)
    predictions = found.evaluation.predictions
    np.testing.assert_allclose(predictions.sum(axis=1), 1, rtol=1e-12)
    # Readouts are from -1 to 1.
    assert predictions.min() > 1 / (1 + 2 * np.exp(2))
    assert found.evaluation.metrics["accuracy"] > 0.6
    columns = found.evaluation.columns
    answers = _answers(found.folder, np.stack([columns["x"], columns["y"]], axis=1))
    np.testing.assert_allclose(answers["probabilities"], predictions, atol=1e-5)


def test_bit_strings_are_classes_with_head_probabilities(tmp_path: Path) -> None:
    found = trained_on(tmp_path / "bits", NAMES, head="probabilities", epochs=15)
    predictions = found.evaluation.predictions
    assert predictions.shape[1] == 3
    # One of the four bit strings of two readouts belongs to no class.
    assert (predictions > -1e-6).all()
    assert (predictions.sum(axis=1) < 1).all()
    assert found.evaluation.metrics["accuracy"] > 0.6
    columns = found.evaluation.columns
    answers = _answers(found.folder, np.stack([columns["x"], columns["y"]], axis=1))
    np.testing.assert_allclose(answers["probabilities"], predictions, atol=1e-5)


@pytest.mark.parametrize("gradient", ["adjoint", "parameter_shift"])
def test_shots_of_head_probabilities_are_joint(tmp_path: Path, gradient: str) -> None:
    fields = {"head": "probabilities", "shots": 50, "gradient": gradient, "epochs": 1}
    predictions = trained_on(tmp_path / "shots", NAMES, **fields).evaluation.predictions
    np.testing.assert_allclose(predictions * 50, np.round(predictions * 50), atol=1e-9)
    assert (predictions.sum(axis=1) <= 1 + 1e-12).all()


def test_sums_of_pauli_strings_are_readouts_in_training_and_the_saved_model(tmp_path: Path) -> None:
    text = cirq_json.to_json(circuits.build("deep", 4))
    fields = {"model": embed("mine.json", text), "observables": "Z3*Z2, 0.5*X1 - Y0 + 0.25", "loss": "mse", "epochs": 1}
    found = trained_on(tmp_path / "sums", NAMES[:2], **fields)
    columns = found.evaluation.columns
    rows = np.stack([columns["x"], columns["y"]], axis=1)
    np.testing.assert_allclose(_answers(found.folder, rows)["prediction"], found.evaluation.predictions, atol=1e-5)
    model, _ = export.load(found.folder / "model")
    parameters, kernel, bias, last, last_bias = model.get_weights()
    inputs = batch_of(found.config.preparation, {"features": tf.constant(found.dataset.test.inputs["features"])})
    ansatz = circuits.build(found.config.model, 4)
    readouts = readouts_of_batch(ansatz, 4, parameters, found.config.preparation, inputs)
    unexcited = readouts_of_batch(
        ansatz,
        4,
        parameters,
        found.config.preparation,
        batch_of(found.config.preparation, {"features": tf.zeros([1, 4])}),
    )
    expected = ((readouts - unexcited) @ kernel + bias) @ last + last_bias
    np.testing.assert_allclose(found.evaluation.predictions, expected[:, 0], atol=1e-5)
