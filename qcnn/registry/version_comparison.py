"""Result of the comparison of two versions on the same rows."""

import dataclasses

from qcnn.registry.bootstrap import RESAMPLES

# Digits of a probability of this number of resamples, which are exact.
_DIGITS = len(str(RESAMPLES)) - 1


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Comparison of a candidate with a champion by a paired bootstrap.

    Attributes:
        metric: Name of the metric.
        rows: Number of rows.
        source: Origin of the rows, as a phrase.
        candidate: Metric of the candidate.
        champion: Metric of the champion.
        low: Lower end of the central 95 % of the metric's difference, candidate minus champion.
        high: Upper end.
        probability: Probability that the candidate is better.
        confidence: Required probability.
    """

    metric: str
    rows: int
    source: str
    candidate: float
    champion: float
    low: float
    high: float
    probability: float
    confidence: float

    @property
    def is_better(self) -> bool:
        """Whether the candidate is better with the required probability."""
        return self.probability >= self.confidence

    @property
    def text(self) -> str:
        """The comparison in one line.

        >>> Comparison("loss", 60, "test rows", 0.25, 0.5, -0.3125, -0.125, 0.9987, 0.95).text
        'loss 0.25 against 0.5 (-0.25; 95 % from -0.3125 to -0.125) on 60 test rows: better with probability 0.9987'
        """
        return (
            f"{self.metric} {self.candidate:.6g} against {self.champion:.6g} "
            f"({self.candidate - self.champion:+.4g}; 95 % from {self.low:.4g} to {self.high:.4g}) "
            f"on {self.rows} {self.source}: better with probability {self.probability:.{_DIGITS}f}"
        )
