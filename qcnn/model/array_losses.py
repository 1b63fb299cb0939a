"""Loss of each sample, and whether its prediction is correct, on NumPy arrays without TensorFlow."""

from typing import Any

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]

# The loss of a class with a lower probability is that of this one, and its gradient is 0.
MIN_PROBABILITY = 1e-9


def losses(label: npt.NDArray[Any], predictions: _Floats) -> _Floats:
    """Return the loss of each sample, (samples,), as `qcnn.model.losses.losses` up to rounding.

    Args:
        label: Labels, (samples,), with the number of the class if predictions are probabilities.
        predictions: Predictions, (samples,), or probabilities of the classes, (samples, classes).
    """
    if predictions.ndim == 1:
        return np.asarray((predictions - label) ** 2)
    of_label = predictions[np.arange(len(label)), label.astype(np.int64)]
    return np.asarray(-np.log(np.maximum(of_label, MIN_PROBABILITY)))
