"""The rule of the sign, for arrays and tensors."""

import numpy as np
import pytest
import tensorflow as tf

from qcnn.model.signs import has_sign, signs_match

_CASES = [
    # Label, prediction, bound, whether the prediction has a sign, and that of its label.
    (1, 0.3, 1e-6, True, True),
    (1, -0.3, 1e-6, True, False),
    (-1, -0.3, 1e-6, True, True),
    (-1, 0.3, 1e-6, True, False),
    (1, 1e-17, 1e-6, False, False),
    (-1, -1e-17, 1e-6, False, False),
    (1, 1e-7, 1e-12, True, True),
    (1, 1e-6, 1e-6, True, True),
    # Ties of shots.
    (1, 0.0, 0.0, True, True),
    (-1, 0.0, 0.0, True, False),
]


@pytest.mark.parametrize(("label", "prediction", "rounding", "signed", "matches"), _CASES)
def test_signs_match_unless_within_rounding(
    label: int, prediction: float, rounding: float, signed: bool, matches: bool
) -> None:
    for convert in (np.array, tf.constant):
        predictions = convert([prediction])
        assert [bool(each) for each in has_sign(predictions, rounding)] == [signed]
        assert [bool(each) for each in signs_match(convert([label]), predictions, rounding)] == [matches]
