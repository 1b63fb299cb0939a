"""Scores of rows, whose means are the metrics of evaluations."""

import numpy as np
import pytest

from qcnn.data.samples import FeatureLayout
from qcnn.errors import ConfigError
from qcnn.results.error_accumulator import ClassAccumulator, ErrorAccumulator
from qcnn.results.row_metrics import row_metric, row_metrics

CLASSES = FeatureLayout(labels="classes", classes=("a", "b", "c"))
ROUNDING = 0.01


def test_means_are_metrics_of_numbers() -> None:
    random, layout = np.random.default_rng(0), FeatureLayout()
    label = random.choice([-1.0, 1.0], 200)
    # Some predictions have no sign.
    predictions = np.concatenate([random.normal(0, 1, 190), random.uniform(-ROUNDING, ROUNDING, 10)])
    accumulator = ErrorAccumulator(layout, 4, ROUNDING)
    accumulator.add({"qubit": np.zeros(200), "angle": np.zeros(200)}, label, predictions)
    for name, metric in row_metrics(layout).items():
        found = metric.scores(label, predictions, ROUNDING)
        assert found.mean() == pytest.approx(accumulator.metrics[name], rel=1e-12)
    assert [*row_metrics(layout)] == ["loss", "mse", "accuracy"]


def test_means_are_metrics_of_classes() -> None:
    random = np.random.default_rng(0)
    label, probabilities = random.integers(0, 3, 200), random.dirichlet([1, 1, 1], 200)
    # A class without a probability, and one that is not determined.
    probabilities[0], probabilities[1] = np.eye(3)[(label[0] + 1) % 3], (0.4, 0.4, 0.2)
    accumulator = ClassAccumulator(CLASSES, ROUNDING)
    accumulator.add({}, label.astype(np.float64), probabilities)
    for name, metric in row_metrics(CLASSES).items():
        found = metric.scores(label, probabilities, ROUNDING)
        assert found.mean() == pytest.approx(accumulator.metrics[name], rel=1e-12)
    assert {name: each.is_maximized for name, each in row_metrics(CLASSES).items()} == {
        "loss": False,
        "accuracy": True,
        "brier_score": False,
    }


def test_regression_has_no_accuracy() -> None:
    with pytest.raises(ConfigError, match=r"^metric: must be one of loss, mse for this model\. Given: 'accuracy'$"):
        row_metric("accuracy", FeatureLayout(labels="real"))
