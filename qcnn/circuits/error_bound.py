"""Lower bound of a model's mean squared error on freshly sampled data."""

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True)
class ErrorBound:
    """Best prediction of a model, `slope` x cos(angle), and its error.

    Over angles uniform in [-pi, pi), the mean of the label is 0, of label x cos 2/pi, and of cos^2 1/2. The MSE of
    a + b cos + c sin is therefore a^2 + 1 - 4 b/pi + b^2/2 + c^2/2, with its minimum at a = c = 0, b = 4/pi.
    """

    slope: float

    @property
    def mse(self) -> float:
        """Mean squared error of the best prediction."""
        return 1 - 4 * self.slope / math.pi + self.slope**2 / 2

    def predict(self, angle: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        """Return the best prediction for angles in radians, float64 of the same shape."""
        return self.slope * np.cos(angle.astype(np.float64))


def error_bound(model: str, hidden_activation: str) -> ErrorBound | None:
    """Return the lower bound of a model, or None if it is unknown.

    `hybrid` with linear dense layers reaches any slope, so its bound is 1 - 8/pi^2. The output of `deep` is one
    expectation value between -1 and 1, so its bound is 3/2 - 4/pi.
    """
    if model == "deep":
        return ErrorBound(1.0)
    if model == "hybrid" and hidden_activation == "linear":
        return ErrorBound(4 / math.pi)
    return None
