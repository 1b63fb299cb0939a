"""Intervals and verdicts, by scipy and by the coverage of simulated tables."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from qcnn.studies.published_values import PublishedValue
from qcnn.studies.verdicts import Repeated, compare, interval_of_mean, verdict

OWN = (0.95, 0.97, 0.99, 0.96)


def _published(value: float = 0.98, **given: Any) -> PublishedValue:
    return PublishedValue(value, "a table", **{"spread": 0.01, "spread_is": "std", "runs": 5, "rows": 100, **given})


def test_interval_equals_that_of_welch() -> None:
    interval = compare(Repeated(OWN, 100), _published())
    assert interval
    other = np.array([-2, -1, 0, 1, 2.0])
    other = 0.98 + 0.01 * other / np.std(other, ddof=1)
    low, high = stats.ttest_ind(OWN, other, equal_var=False).confidence_interval(0.95)
    assert (interval.difference, interval.low, interval.high) == pytest.approx((np.mean(OWN) - 0.98, low, high))


def test_interval_of_other_rows_has_both_binomial_errors() -> None:
    narrow = compare(Repeated(OWN, 100), _published())
    wide = compare(Repeated(OWN, 50), _published(rows=200))
    assert narrow
    assert wide
    mean = float(np.mean(OWN))
    binomial = mean * (1 - mean) / 50 + 0.98 * 0.02 / 200
    seeds = np.var(OWN, ddof=1) / 4, 0.01**2 / 5
    variance = sum(seeds) + binomial
    freedom = variance**2 / (seeds[0] ** 2 / 3 + seeds[1] ** 2 / 4)
    assert wide.high - wide.difference == pytest.approx(stats.t.ppf(0.975, freedom) * math.sqrt(variance))
    # A loss is no fraction of rows.
    loss = compare(Repeated(OWN, 50), _published(metric="loss"))
    assert loss
    assert (loss.low, loss.high) == pytest.approx((narrow.low, narrow.high))


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        ("accuracy", 0.97, "agrees"),
        ("accuracy", 0.5, "better"),
        ("accuracy", 1.0, "differs"),
        ("loss", 0.5, "differs"),
        ("loss", 1.5, "better"),
    ],
)
def test_verdict(metric: str, value: float, expected: str) -> None:
    interval = compare(Repeated(OWN, 100), _published(value, metric=metric))
    assert interval
    assert verdict(interval, metric) == expected


def test_equal_values_without_spread_agree() -> None:
    interval = compare(Repeated((0.9, 0.9, 0.9), 100), _published(0.9, spread=0.0))
    assert interval
    assert verdict(interval, "accuracy") == "agrees"
    interval = compare(Repeated((0.9, 0.9, 0.9), 100), _published(0.91, spread=0.0))
    assert interval
    assert verdict(interval, "accuracy") == "differs"


@pytest.mark.parametrize(
    ("own", "published"),
    [(OWN[:2], _published()), (OWN, PublishedValue(0.98, "a table", runs=5)), (OWN, PublishedValue(0.98, "a table"))],
)
def test_unknown_spread_or_fewer_than_three_runs_has_no_interval(
    own: tuple[float, ...], published: PublishedValue
) -> None:
    assert compare(Repeated(own, 100), published) is None


def test_one_of_twenty_tables_of_equal_experiments_differs() -> None:
    """Two tables with the same true accuracy, other test rows, and spreads of other sizes."""
    random = np.random.default_rng(5)
    verdicts = []
    for _ in range(1000):
        own, other = (
            random.binomial(rows, 0.9) / rows + random.normal(0, spread, 5)
            for rows, spread in ((400, 0.01), (800, 0.03))
        )
        published = _published(float(np.clip(np.mean(other), 0, 1)), spread=float(np.std(other, ddof=1)), rows=800)
        interval = compare(Repeated(tuple(own), 400), published)
        assert interval
        verdicts.append(verdict(interval, "accuracy"))
    assert 0.03 <= 1 - verdicts.count("agrees") / 1000 <= 0.07


def test_paired_interval_equals_that_of_student() -> None:
    values = [0.01, -0.02, 0.03, 0.02]
    interval = interval_of_mean(values)
    assert interval
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx((low, high))
    assert interval_of_mean(values[:1]) is None
