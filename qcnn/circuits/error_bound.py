"""The least mean squared error that a model can reach over fresh samples."""

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True)
class ErrorBound:
    """The best prediction a model can make: `slope` x cos(angle).

    Over angles uniform in [-pi, pi) the label's mean is 0, its product with the cosine averages 2/pi, and the
    squared cosine 1/2. So a + b cos + c sin errs by a^2 + 1 - 4 b/pi + b^2/2 + c^2/2, least at a = c = 0, b = 4/pi.
    """

    slope: float

    @property
    def mse(self) -> float:
        """Mean squared error of that prediction."""
        return 1 - 4 * self.slope / math.pi + self.slope**2 / 2

    def predict(self, angle: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        """Return the best prediction, float64 of the angles' shape, for angles in rad."""
        return self.slope * np.cos(angle.astype(np.float64))


def error_bound(model: str, hidden_activation: str) -> ErrorBound | None:
    """Return the floor of a model, None where none is known.

    `hybrid` with linear dense layers reaches any slope: 1 - 8/pi^2. The output of `deep` is one expectation value,
    at most 1 in size: 3/2 - 4/pi.
    """
    if model == "deep":
        return ErrorBound(1.0)
    if model == "hybrid" and hidden_activation == "linear":
        return ErrorBound(4 / math.pi)
    return None
