"""Signs of predictions, whose comparison with the labels gives every accuracy.

A prediction within the rounding error of the simulator has no sign: a readout that vanishes has rounding noise of both
signs. It counts as wrong for both labels. The functions take arrays of NumPy and tensors of TensorFlow.
"""

from typing import Any


def has_sign(prediction: Any, rounding: float) -> Any:
    """Return where predictions have a sign, as booleans of their shape.

    Args:
        prediction: Predictions.
        rounding: Bound on their rounding error, `Simulator.rounding`. 0 for predictions from shots, which are exact
            multiples: all of them have a sign, and that of 0 is +1.
    """
    return abs(prediction) >= rounding


def signs_match(label: Any, prediction: Any, rounding: float) -> Any:
    """Return where predictions have the sign of their label, as booleans of their shape.

    Args:
        label: Labels, of which positive ones are the class +1.
        prediction: Predictions.
        rounding: As in `has_sign`.
    """
    return ((label > 0) == (prediction >= 0)) & has_sign(prediction, rounding)


def unsigned_message(count: int, of: int, rounding: float) -> str:
    """Return the log line about predictions without a sign.

    Args:
        count: Number of predictions without a sign.
        of: Number of all predictions.
        rounding: Bound on their rounding error.
    """
    return f"{count} of {of} predictions are below the rounding error of {rounding:g}: they count as wrong"
