"""Published values of rows of a study, as study files contain them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from qcnn.errors import ConfigError, format_value, single_line

SpreadKind = Literal["std", "sem"]
# Metrics of an evaluation that may be published, and whether their highest value is the best.
COMPARED_METRICS: Mapping[str, bool] = {
    "accuracy": True,
    "balanced_accuracy": True,
    "loss": False,
    "mse": False,
    "train_accuracy": True,
    "train_loss": False,
}
# Metrics that are fractions of rows, which have a binomial error.
FRACTIONS = ("accuracy",)
_MAX_COUNT = 10**9
_MAX_TEXT = 1000


@dataclasses.dataclass(frozen=True)
class PublishedValue:
    """Published result of the experiment of a row.

    Attributes:
        value: Mean over the published runs, or the value of a single run. Accuracies are fractions.
        source: Paper and table, URL, or file of a repository.
        metric: Metric of the evaluation that the value belongs to.
        spread: Spread of the published runs, or None if it is not published.
        spread_is: Kind of spread: standard deviation of the runs, or standard error of their mean.
        runs: Number of published runs, or None if it is not published.
        rows: Number of test samples, or None if it is not published.
    """

    value: float
    source: str
    metric: str = "accuracy"
    spread: float | None = None
    spread_is: SpreadKind | None = None
    runs: int | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        if (self.spread is None) != (self.spread_is is None):
            raise ConfigError(
                f"published: must have both spread and spread_is, or neither. Given: {format_value(self.to_mapping())}"
            )
        if self.spread is not None and (self.runs is None or self.runs < 2):
            raise ConfigError(
                f"published: runs must be 2 or more with a spread. Given: {format_value(self.to_mapping())}"
            )
        if self.metric in FRACTIONS and not 0 <= self.value <= 1:
            raise ConfigError(f"published: an accuracy must be a fraction, 0 to 1. Given: {self.value:g}")

    @property
    def error(self) -> float | None:
        """Standard error of the published mean, or None if it is not known."""
        if self.spread is None or self.runs is None:
            return None
        return self.spread / math.sqrt(self.runs) if self.spread_is == "std" else self.spread

    def to_mapping(self) -> dict[str, Any]:
        """Return the value as `parse_published` reads it."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


def parse_published(value: Any) -> PublishedValue:
    """Return the published value of a row.

    Args:
        value: Mapping of a study file with the fields of `PublishedValue`.

    Raises:
        ConfigError: If a field is missing, unknown or invalid.

    >>> parse_published({"value": 0.984, "spread": 0.006, "spread_is": "std", "runs": 5, "source": "Table 3"}).error
    0.002683281572999748
    """
    names = [field.name for field in dataclasses.fields(PublishedValue)]
    if not isinstance(value, Mapping) or not set(value) <= set(names):
        raise ConfigError(f"published: must be a mapping with any of {', '.join(names)}. Given: {format_value(value)}")
    given = {name: each for name, each in value.items() if each is not None}
    parsers = {
        "value": _number,
        "spread": _spread,
        "source": _text,
        "metric": lambda name, each: _choice(name, each, tuple(COMPARED_METRICS)),
        "spread_is": lambda name, each: _choice(name, each, get_args(SpreadKind)),
        "runs": _count,
        "rows": _count,
    }
    if missing := [name for name in ("value", "source") if name not in given]:
        raise ConfigError(f"published: must have {missing[0]}. Given: {format_value(dict(value))}")
    return PublishedValue(**{name: parsers[name](name, each) for name, each in given.items()})


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise ConfigError(f"published: {name} must be a number. Given: {format_value(value)}")
    return float(value)


def _spread(name: str, value: Any) -> float:
    number = _number(name, value)
    if number < 0:
        raise ConfigError(f"published: {name} must be 0 or more. Given: {number:g}")
    return number


def _count(name: str, value: Any) -> int:
    # Kubeflow Pipelines passes integers as floats.
    is_whole = not isinstance(value, bool) and isinstance(value, int | float) and value % 1 == 0
    if not is_whole or not 1 <= value <= _MAX_COUNT:
        raise ConfigError(f"published: {name} must be a whole number, 1 to {_MAX_COUNT}. Given: {format_value(value)}")
    return int(value)


def _choice(name: str, value: Any, allowed: tuple[str, ...]) -> Any:
    if value not in allowed:
        raise ConfigError(f"published: {name} must be one of {', '.join(allowed)}. Given: {format_value(value)}")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > _MAX_TEXT:
        raise ConfigError(
            f"published: {name} must be a text of 1 to {_MAX_TEXT} characters. Given: {format_value(value)}"
        )
    return single_line(value)
