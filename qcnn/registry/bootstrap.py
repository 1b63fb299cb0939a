"""Paired bootstrap: how certain it is that a model is better than another one on rows like the given ones."""

import dataclasses

import numpy as np
import numpy.typing as npt

RESAMPLES = 10_000
# Number of drawn rows in memory.
_CHUNK = 2**18
# Ends of the interval of the mean.
_QUANTILES = (0.025, 0.975)


@dataclasses.dataclass(frozen=True)
class Bootstrap:
    """Distribution of a mean over rows.

    Attributes:
        mean: Mean of the given rows.
        low: Lower end of the central 95 % of the means of the resamples.
        high: Upper end.
        probability: Fraction of the resamples whose mean is positive.
    """

    mean: float
    low: float
    high: float
    probability: float


def paired_bootstrap(improvement: npt.NDArray[np.float64], seed: int = 0, resamples: int = RESAMPLES) -> Bootstrap:
    """Return the distribution of the mean improvement if the rows are drawn again with replacement.

    Each resample draws the same rows for both models (B. Efron and R. Tibshirani, An Introduction to the Bootstrap,
    1993, chapter 13, percentile interval).

    Args:
        improvement: Score of the candidate minus that of the champion for each row, finite float64 (rows,), with the
            sign by which positive numbers are better.
        seed: Seed of the draws.
        resamples: Number of resamples.

    >>> result = paired_bootstrap(np.array([0.5, 0.5, -0.25, 0.75]))
    >>> result.mean, result.probability > 0.95
    (0.375, True)
    """
    random, rows = np.random.default_rng(seed), len(improvement)
    together = max(1, _CHUNK // rows)
    means = np.empty(resamples)
    for start in range(0, resamples, together):
        count = min(together, resamples - start)
        drawn = random.integers(0, rows, (count, rows))
        means[start : start + count] = improvement.take(drawn).mean(axis=1)
    low, high = np.quantile(means, _QUANTILES)
    return Bootstrap(float(improvement.mean()), float(low), float(high), float(np.mean(means > 0)))
