import csv
import dataclasses
import logging
from pathlib import Path

import numpy as np
import pytest

from qcnn import data
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.results import export
from qcnn.results.evaluate import (
    confusion,
    evaluate,
    predict,
    report,
    save_predictions,
    scores_of_classes,
    scores_of_regression,
)


def test_evaluate_metrics_equal_keras(model_folder: Path, small_dataset: data.Dataset) -> None:
    metrics = evaluate(model_folder, small_dataset).metrics
    model, description = export.load(model_folder)
    split = small_dataset.test
    mse, accuracy = model.evaluate(dict(split.inputs), split.label.astype(np.float64), verbose=0)
    assert metrics["mse"] == pytest.approx(mse, abs=1e-6)
    assert metrics["accuracy"] == pytest.approx(accuracy, abs=1e-6)
    assert metrics["val_loss"] == description["training"]["val_loss"]
    assert metrics["epochs"] == 3
    fresh = data.sample_fresh(4, seed=0)
    assert metrics["fresh_mse"] == pytest.approx(scores_of_classes(fresh, predict(model, fresh))["mse"], rel=1e-5)


def test_save_predictions_has_samples_in_order(model_folder: Path, small_dataset: data.Dataset, tmp_path: Path) -> None:
    evaluation = evaluate(model_folder, small_dataset)
    save_predictions(evaluation, tmp_path / "predictions")
    with (tmp_path / "predictions" / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["qubit"]) for row in rows] == small_dataset.test.qubit.tolist()
    assert [int(row["label"]) for row in rows] == small_dataset.test.label.tolist()
    errors = [float(row["prediction"]) - int(row["label"]) for row in rows]
    assert np.mean(np.square(errors)) == pytest.approx(evaluation.metrics["mse"], rel=1e-6)


def test_scores_of_classes_accuracy_is_by_sign() -> None:
    samples = data.excitation_samples(np.zeros(4, np.int32), np.zeros(4, np.float32), np.array([1, 1, -1, -1], np.int8))
    scores = scores_of_classes(samples, np.array([0.2, -0.1, -3.0, 0.1]))
    assert scores["accuracy"] == 0.5
    assert scores["mse"] == pytest.approx((0.8**2 + 1.1**2 + 2**2 + 1.1**2) / 4)


def test_labels_that_are_all_the_same_have_no_r2() -> None:
    # Due to rounding, the mean of three equal labels differs from the label.
    samples = data.excitation_samples(np.zeros(3, np.int32), np.zeros(3, np.float32), np.full(3, 0.1))
    assert scores_of_regression(samples, np.full(3, 0.3)) == {"mse": pytest.approx(0.04), "loss": pytest.approx(0.04)}


def test_confusion_counts_signs_by_label() -> None:
    samples = data.excitation_samples(
        np.zeros(5, np.int32), np.zeros(5, np.float32), np.array([1, 1, 1, -1, -1], np.int8)
    )
    predictions = np.array([0.5, 0.0, -0.1, -2.0, 3.0])
    assert confusion(samples, predictions) == [[1, 1], [1, 2]]
    # Without a sign, the prediction 0 counts as the other class.
    assert confusion(samples, predictions, 1e-12) == [[1, 1], [2, 1]]


def test_predictions_within_rounding_count_as_wrong(
    model_folder: Path, small_dataset: data.Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    evaluation = evaluate(model_folder, small_dataset)
    assert evaluation.rounding == 1e-12
    noise = 1e-17 * np.sign(evaluation.samples.label)
    noise[0] = evaluation.samples.label[0]
    assert scores_of_classes(evaluation.samples, noise, evaluation.rounding)["accuracy"] == 1 / 6
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="qcnn"):
        report(evaluation)
        report(dataclasses.replace(evaluation, predictions=noise))
    assert caplog.messages == ["5 of 6 predictions are below the rounding error of 1e-12: they count as wrong"]


def test_evaluate_other_dataset_raises(model_folder: Path, small_config: ExperimentConfig) -> None:
    with pytest.raises(ArtifactError, match=r"^dataset: must be the dataset of the training run \(digest "):
        evaluate(model_folder, data.generate(small_config.model_copy(update={"seed": 5})))


def test_evaluate_dataset_with_other_qubits_raises(model_folder: Path) -> None:
    with pytest.raises(ArtifactError, match=r"^dataset: must have 4 qubits.* Given: 5 qubits"):
        evaluate(model_folder, data.generate(from_mapping({"qubits": 5})))
