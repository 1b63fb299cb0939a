"""Metrics of class probabilities, compared with values by hand."""

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from qcnn.data import FeatureLayout
from qcnn.results.class_scores import confusion_of_classes, roc_auc, scores_of_probabilities
from qcnn.results.error_accumulator import ClassAccumulator

LABEL = np.array([0, 0, 1, 1, 1, 2])
THREE = np.array(
    [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.5, 0.3], [0.1, 0.8, 0.1], [0.4, 0.3, 0.3], [0.0, 0.0, 1.0]], np.float64
)


def test_scores_of_three_classes() -> None:
    assert confusion_of_classes(LABEL, THREE) == [[1, 1, 0], [1, 2, 0], [0, 0, 1]]
    scores = scores_of_probabilities(LABEL, THREE, ("a", "b", "c"))
    assert scores == pytest.approx(
        {
            "loss": -math.log(0.7 * 0.1 * 0.5 * 0.8 * 0.3) / 6,
            # Squared distances 0.14, 1.26, 0.38, 0.06, 0.74 and 0.
            "brier_score": 2.58 / 6,
            "accuracy": 4 / 6,
            "balanced_accuracy": (1 / 2 + 2 / 3 + 1) / 3,
            "recall_a": 1 / 2,
            "recall_b": 2 / 3,
            "recall_c": 1.0,
        }
    )


def test_scores_of_two_classes_have_area_under_the_curve() -> None:
    second = np.array([0.1, 0.4, 0.35, 0.8])
    scores = scores_of_probabilities(np.array([0, 0, 1, 1]), np.stack([1 - second, second], axis=1), ("no", "yes"))
    # Of the four pairs of a sample of each class, three are in order.
    assert scores["roc_auc"] == 0.75
    assert scores["brier_score"] == pytest.approx((0.1**2 + 0.4**2 + 0.65**2 + 0.2**2) / 4)


def test_class_without_samples_has_no_recall() -> None:
    scores = scores_of_probabilities(np.array([0, 0]), np.array([[0.9, 0.1], [0.8, 0.2]]), ("no", "yes"))
    assert scores.keys() == {"loss", "brier_score", "accuracy", "balanced_accuracy", "recall_no"}
    assert scores["balanced_accuracy"] == 1


def test_accumulator_equals_scores_of_all_rows() -> None:
    layout = FeatureLayout(labels="classes", classes=("a", "b", "c"))
    accumulator = ClassAccumulator(layout)
    for rows in (slice(0, 1), slice(1, 4), slice(4, 6)):
        accumulator.add({}, LABEL[rows].astype(np.float64), THREE[rows])
    assert accumulator.metrics == pytest.approx(scores_of_probabilities(LABEL, THREE, layout.classes))
    assert (accumulator.rows, accumulator.unsigned) == (6, 0)


def test_accumulator_of_two_classes_has_area_under_the_curve_with_ties() -> None:
    random = np.random.default_rng(3)
    second = random.integers(0, 9, 500) / 8
    label, probabilities = random.integers(0, 2, 500), np.stack([1 - second, second], axis=1)
    accumulator = ClassAccumulator(FeatureLayout(labels="classes", classes=("no", "yes")))
    for rows in (slice(0, 1), slice(1, 400), slice(400, 500)):
        accumulator.add({}, label[rows].astype(np.float64), probabilities[rows])
    expected = scores_of_probabilities(label, probabilities, ("no", "yes"))
    assert accumulator.metrics == pytest.approx(expected, rel=1e-13)
    pairs = second[label == 1][:, None] - second[label == 0][None, :]
    assert accumulator.metrics["roc_auc"] == np.mean((np.sign(pairs) + 1) / 2)


def test_area_under_the_curve_needs_samples_of_both_classes() -> None:
    accumulator = ClassAccumulator(FeatureLayout(labels="classes", classes=("no", "yes")))
    accumulator.add({}, np.zeros(2), np.array([[0.9, 0.1], [0.8, 0.2]]))
    assert "roc_auc" not in accumulator.metrics
    accumulator.add({}, np.ones(1), np.array([[0.85, 0.15]]))
    assert accumulator.metrics["roc_auc"] == 0.5


def test_area_under_the_curve_is_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcnn.results.class_scores._PART", 7)
    first, second = (np.random.default_rng(seed).integers(0, 20, 50) / 20 for seed in (0, 1))
    expected = roc_auc_score(np.repeat([0, 1], 50), np.concatenate([first, second]))
    assert roc_auc(first, second) == pytest.approx(expected, rel=1e-13)


def test_undetermined_class_counts_as_wrong_for_each_label() -> None:
    equal = np.array([[0.5, 0.5], [0.5, 0.5]])
    assert confusion_of_classes(np.array([0, 1]), equal, 1e-9) == [[0, 1], [1, 0]]
