"""Titles of metrics with and without the mean squared error as the loss."""

import pytest

from qcnn.results.metric_titles import baseline_texts, titled_metrics

TITLES = {"mse": "test MSE", "loss": "test loss", "accuracy": "sign accuracy"}


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"mse": 0.5, "loss": 0.5, "accuracy": 1.0}, {"test MSE": 0.5, "sign accuracy": 1.0}),
        # Metrics of an earlier version.
        ({"mse": 0.5, "accuracy": 1.0}, {"test MSE": 0.5, "sign accuracy": 1.0}),
        ({"loss": 0.7, "accuracy": 1.0, "recall_a": 1.0}, {"test loss": 0.7, "accuracy": 1.0}),
        ({}, {}),
    ],
    ids=["mse", "earlier", "cross-entropy", "none"],
)
def test_titled_metrics(metrics: dict[str, float], expected: dict[str, float]) -> None:
    assert titled_metrics(metrics, TITLES) == expected
    assert list(titled_metrics(metrics, TITLES)) == list(expected)


def test_baseline_texts_have_accuracy_difference_and_interval() -> None:
    values = {"accuracy": 0.9, "difference": -0.05, "difference_low": -0.11, "difference_high": 0.012}
    metrics = {"accuracy": 0.85, **{f"svm_{name}": value for name, value in values.items()}}
    expected = "accuracy 0.9000, network -0.0500 (95 %: -0.1100 to +0.0120)"
    assert baseline_texts(metrics) == {"SVM (RBF kernel)": expected}
    assert baseline_texts({"accuracy": 0.85}) == {}
