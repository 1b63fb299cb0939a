"""Intervals of repeated trials, and the verdict of their comparison with a published value."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Literal

from qcnn.studies.published_values import COMPARED_METRICS, FRACTIONS, PublishedValue

Verdict = Literal["agrees", "better", "differs"]
# Fewer trials have no verdict.
MIN_RUNS = 3
_CONFIDENCE = 0.95
# Equal values without a spread differ by the rounding of their mean.
_ROUNDING = 1e-12


@dataclasses.dataclass(frozen=True)
class Repeated:
    """Values of a metric over the trials of a row.

    Attributes:
        values: Value of each trial, in the order of the seeds.
        rows: Number of test samples of a trial.
    """

    values: tuple[float, ...]
    rows: int

    @property
    def mean(self) -> float:
        """Mean of the values."""
        return statistics.fmean(self.values)

    @property
    def error(self) -> float | None:
        """Standard error of the mean, or None for a single value."""
        return _standard_error(self.values)


@dataclasses.dataclass(frozen=True)
class Interval:
    """Difference of two means with its 95 % interval."""

    difference: float
    low: float
    high: float


def interval_of_mean(values: Sequence[float]) -> Interval | None:
    """Return the mean of paired differences with its interval, or None for fewer than two.

    The interval is that of Student's t distribution.

    Args:
        values: Difference of each pair.

    >>> interval_of_mean([0.01, 0.02, 0.03])
    Interval(difference=0.02, low=-0.004841377117503303, high=0.0448413771175033)
    """
    error = _standard_error(values)
    if error is None:
        return None
    mean, half = statistics.fmean(values), _quantile(len(values) - 1) * error
    return Interval(mean, mean - half, mean + half)


def compare(own: Repeated, published: PublishedValue) -> Interval | None:
    """Return the difference of a row to its published value, or None if its interval is not known.

    The interval is that of Welch (Biometrika 34, 28, 1947) for two means of unequal variances. If the numbers of test
    samples differ, or the published one is unknown, fractions of samples have in addition the binomial error of the
    test sets, p (1 - p) / rows each.

    Args:
        own: Values of the row.
        published: Published value.

    >>> compare(Repeated((0.97, 0.98, 0.99), 100), PublishedValue(0.98, "Table 1", "loss", 0.01, "std", 3))
    Interval(difference=0.0, low=-0.0226695793552752, high=0.0226695793552752)
    """
    if len(own.values) < MIN_RUNS or own.error is None or published.error is None or published.runs is None:
        return None
    parts = (own.error**2, len(own.values) - 1), (published.error**2, published.runs - 1)
    variance = sum(part for part, _ in parts)
    if published.metric in FRACTIONS and published.rows != own.rows:
        variance += own.mean * (1 - own.mean) / own.rows
        if published.rows is not None:
            variance += published.value * (1 - published.value) / published.rows
    # Welch-Satterthwaite. The variances of the test sets are known and have no degrees of freedom.
    uncertain = sum(part**2 / freedom for part, freedom in parts)
    half = _quantile(variance**2 / uncertain if uncertain else math.inf) * math.sqrt(variance)
    difference = own.mean - published.value
    return Interval(difference, difference - half, difference + half)


def verdict(interval: Interval, metric: str) -> Verdict:
    """Return the verdict of the interval of a difference to a published value.

    Args:
        interval: Interval of own minus published value.
        metric: Name of the metric.
    """
    if interval.low <= _ROUNDING and interval.high >= -_ROUNDING:
        return "agrees"
    is_higher = interval.low > 0
    return "better" if is_higher == COMPARED_METRICS[metric] else "differs"


def _standard_error(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def _quantile(freedom: float) -> float:
    """Return the two-sided quantile of Student's t distribution."""
    # SciPy takes a second to import.
    from scipy.special import ndtri, stdtrit

    probability = (1 + _CONFIDENCE) / 2
    return float(ndtri(probability) if math.isinf(freedom) else stdtrit(freedom, probability))
