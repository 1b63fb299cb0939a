"""Titles of metrics with and without the mean squared error as the loss."""

import pytest

from qcnn.results.metric_titles import titled_metrics

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
