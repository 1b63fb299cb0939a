"""Metrics that are means over rows, with the score of each row, by which two models are compared."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.data.samples import FeatureLayout
from qcnn.errors import ConfigError, format_value
from qcnn.model.array_losses import losses
from qcnn.model.signs import signs_match
from qcnn.monitoring.validation_metrics import SELECTION_METRICS, VAL_ACCURACY, VAL_LOSS
from qcnn.results.class_scores import brier_scores, predicted_classes

_Floats = npt.NDArray[np.float64]
# Labels, predictions and the bound on their rounding error.
_Scores = Callable[[npt.NDArray[Any], _Floats, float], _Floats]


@dataclasses.dataclass(frozen=True)
class RowMetric:
    """Mean of a score of each row.

    Attributes:
        is_maximized: Whether its highest value is the best.
        scores: Function that returns the score of each row, (rows,), from labels, predictions and rounding error.
    """

    is_maximized: bool
    scores: _Scores


def _losses(label: npt.NDArray[Any], predictions: _Floats, _: float) -> _Floats:
    return losses(label, predictions)


def _correct(label: npt.NDArray[Any], predictions: _Floats, rounding: float) -> _Floats:
    if predictions.ndim == 1:
        return np.asarray(signs_match(label, predictions, rounding), np.float64)
    numbers = label.astype(np.int64)
    return np.asarray(predicted_classes(numbers, predictions, rounding) == numbers, np.float64)


def _brier_scores(label: npt.NDArray[Any], predictions: _Floats, _: float) -> _Floats:
    return brier_scores(label.astype(np.int64), predictions)


_LOSS = RowMetric(SELECTION_METRICS[VAL_LOSS].is_maximized, _losses)
_ACCURACY = RowMetric(SELECTION_METRICS[VAL_ACCURACY].is_maximized, _correct)
_BRIER_SCORE = RowMetric(is_maximized=False, scores=_brier_scores)


def row_metrics(layout: FeatureLayout) -> Mapping[str, RowMetric]:
    """Return the metrics of the predictions for a layout by name. The first one is the loss."""
    if layout.is_classification:
        return {"loss": _LOSS, "accuracy": _ACCURACY, "brier_score": _BRIER_SCORE}
    return {"loss": _LOSS, "mse": _LOSS, **({} if layout.is_regression else {"accuracy": _ACCURACY})}


def row_metric(name: str, layout: FeatureLayout) -> RowMetric:
    """Return the metric of a name.

    Raises:
        ConfigError: If the predictions for the layout have no such metric.
    """
    metrics = row_metrics(layout)
    if name not in metrics:
        raise ConfigError(f"metric: must be one of {', '.join(metrics)} for this model. Given: {format_value(name)}")
    return metrics[name]
