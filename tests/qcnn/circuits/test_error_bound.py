import re

import numpy as np
import pytest

from qcnn.circuits.error_bound import ErrorBound, error_bound
from tests.shared_training_runs import documents

# Midpoint rule: the mean over these angles approximates the integral over [-pi, pi).
ANGLE = (np.arange(200_000) + 0.5) / 100_000 * np.pi - np.pi
LABEL = np.where(np.abs(ANGLE) <= np.pi / 2, 1.0, -1.0)


def _bound(model: str) -> ErrorBound:
    bound = error_bound(model, "linear")
    assert bound
    return bound


def test_hybrid_bound_is_minimum_of_linear_fit() -> None:
    features = np.stack([np.ones_like(ANGLE), np.cos(ANGLE), np.sin(ANGLE)], axis=1)
    weights, *_ = np.linalg.lstsq(features, LABEL)
    bound = _bound("hybrid")
    assert bound.mse == pytest.approx(np.mean((features @ weights - LABEL) ** 2), abs=1e-9)
    assert bound.predict(ANGLE) == pytest.approx(features @ weights, abs=1e-6)


def test_deep_bound_is_minimum_of_bounded_output() -> None:
    errors = [np.mean((slope * np.cos(ANGLE) - LABEL) ** 2) for slope in np.linspace(-1, 1, 201)]
    bound = _bound("deep")
    assert bound.mse == pytest.approx(min(errors), abs=1e-9)
    assert np.abs(bound.predict(ANGLE)).max() <= 1


@pytest.mark.parametrize(("model", "activation"), [("hybrid", "relu"), ("my_circuits:ladder", "linear")])
def test_error_bound_of_other_models_is_none(model: str, activation: str) -> None:
    assert error_bound(model, activation) is None


def test_error_bound_of_deep_ignores_hidden_activation() -> None:
    assert error_bound("deep", "relu") == error_bound("deep", "linear")


def test_docs_quote_error_bounds() -> None:
    quoted = re.search(r"1 - 8/pi\^2 = (\d\.\d+).*?`deep`.*?bound\sis\s(\d\.\d+)\.", documents(), re.DOTALL)
    assert quoted
    assert quoted.groups() == tuple(f"{_bound(model).mse:.4f}" for model in ("hybrid", "deep"))
