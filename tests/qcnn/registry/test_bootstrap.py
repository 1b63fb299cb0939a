"""The paired bootstrap against its definition, and its rate of false promotions."""

import numpy as np
import pytest

from qcnn.registry import bootstrap
from qcnn.registry.bootstrap import paired_bootstrap
from qcnn.registry.defaults import CONFIDENCE


def test_distribution_of_two_rows_is_exact() -> None:
    """Draws of (-1, 2) have the means -1, 0.5, 0.5, 2 with the same probability."""
    found = paired_bootstrap(np.array([-1.0, 2.0]))
    assert (found.mean, found.low, found.high) == (0.5, -1.0, 2.0)
    # Three standard deviations of a fraction of 10,000 draws.
    assert found.probability == pytest.approx(0.75, abs=3 * np.sqrt(0.75 * 0.25 / 10_000))


def test_interval_is_that_of_the_normal_distribution_of_means() -> None:
    values = np.random.default_rng(0).normal(0.1, 1, 5000)
    found = paired_bootstrap(values)
    error = values.std() / np.sqrt(5000)
    assert found.low == pytest.approx(values.mean() - 1.96 * error, abs=0.05 * error)
    assert found.high == pytest.approx(values.mean() + 1.96 * error, abs=0.05 * error)


def test_equal_predictions_are_never_better() -> None:
    found = paired_bootstrap(np.zeros(100))
    assert (found.mean, found.low, found.high, found.probability) == (0, 0, 0, 0)


def test_result_is_reproducible_and_depends_on_seed() -> None:
    values = np.random.default_rng(0).normal(0, 1, 60)
    assert paired_bootstrap(values) == paired_bootstrap(values) != paired_bootstrap(values, seed=1)


def test_many_rows_need_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk of one resample is the minimum."""
    monkeypatch.setattr(bootstrap, "_CHUNK", 10)
    assert paired_bootstrap(np.ones(1000), resamples=7).probability == 1


def test_equal_models_are_promoted_once_in_twenty() -> None:
    """Both models predict cos(angle) with opposite errors, so that neither is better."""
    random, promoted = np.random.default_rng(0), 0
    for _ in range(200):
        angle = random.uniform(-np.pi, np.pi, 50)
        label = np.where(np.abs(angle) <= np.pi / 2, 1, -1)
        first, second = (np.cos(angle) + sign * 0.5 * np.sin(angle) for sign in (1, -1))
        promoted += paired_bootstrap((first - label) ** 2 - (second - label) ** 2).probability >= CONFIDENCE
    # 10 are expected, with a standard deviation of 3.1.
    assert 4 <= promoted <= 16
