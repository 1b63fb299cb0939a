"""What a study searches: values and ranges of an experiment's words, and how trials are drawn from them."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qcnn import data
from qcnn.errors import ConfigError, given, one_line
from qcnn.experiment import WORDS, field_type

MAX_TRIALS = 1000
# Trials that are trained at the same time.
PARALLELISM = 2
# The largest bound of a range, in size, so that its width is finite too.
_MOST = 1e300
_SCALES = ("linear", "log")


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included, drawn evenly, or evenly by their logarithm."""

    low: float
    high: float
    scale: str = "linear"


@dataclasses.dataclass(frozen=True)
class Search:
    """What is searched: values and ranges by word. With `random`, so many trials are drawn; else all of the grid."""

    grid: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    ranges: Mapping[str, Range] = dataclasses.field(default_factory=dict)
    random: int = 0


def search_from_mapping(values: Mapping[str, Any]) -> Search:
    """Read a search: `grid` (word: values), `range` (word: [low, high] or [low, high, log]), `random` (a number).

    Raises:
        ConfigError: it is not a search.
    """
    grid, ranges, random = values.get("grid") or {}, values.get("range") or {}, values.get("random") or 0
    if not isinstance(grid, Mapping) or not all(isinstance(choices, list) for choices in grid.values()):
        raise ConfigError(f"grid: must be a mapping of words to lists of values. Given: {given(grid)}")
    if not isinstance(ranges, Mapping):
        what = "must be a mapping of words to [low, high] or [low, high, log]"
        raise ConfigError(f"range: {what}. Given: {given(ranges)}")
    if not isinstance(random, int | float) or (isinstance(random, float) and not random.is_integer()):
        raise ConfigError(f"random: must be an integer. Given: {given(random)}")
    return Search(grid, {str(name): _range(str(name), bounds) for name, bounds in ranges.items()}, int(random))


def draw(search: Search, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the words of each trial.

    Raises:
        ConfigError: there are no trials, too many, or a word is unknown.
    """
    _check(search)
    yield from _random(search, seed) if search.random else _grid(search)


def _range(name: str, bounds: Any) -> Range:
    match bounds:
        case [int() | float() as low, int() | float() as high, *rest] if not max(abs(low), abs(high)) > _MOST:
            if not rest or (len(rest) == 1 and isinstance(rest[0], str)):
                return Range(low, high, *rest)
    form = f"must be [low, high], or [low, high, log], of numbers up to {_MOST:g} in size"
    raise ConfigError(f"{one_line(name)}: a range {form}. Given: {given(bounds)}")


def _check(search: Search) -> None:
    """Refuse a search that has no trials, too many, or unknown words."""
    if not search.grid and not search.ranges:
        raise ConfigError("study: needs values or ranges of at least one word. Given: none")
    if search.ranges and not search.random:
        raise ConfigError(
            f"random: must say how many trials are drawn from the ranges. Given: {', '.join(search.ranges)}"
        )
    for name in (*search.grid, *search.ranges):
        if name not in WORDS:
            raise ConfigError(f"study: only the experiment's words can be searched. Given: {name}")
        if name in search.grid and name in search.ranges:
            raise ConfigError(f"{name}: must have either values or a range. Given: both")
    for name, values in search.grid.items():
        if not values:
            raise ConfigError(f"{name}: must have at least one value. Given: none")
    for name, bounds in search.ranges.items():
        lowest = 0 if bounds.scale == "log" else -math.inf
        if field_type(WORDS[name]) is str or bounds.scale not in _SCALES or not lowest < bounds.low < bounds.high:
            raise ConfigError(
                f"{name}: a range must be of numbers, the lower first, above 0 on a log scale. Given: "
                f"{bounds.low:g} to {bounds.high:g}, {bounds.scale}"
            )
    count = search.random or math.prod(len(values) for values in search.grid.values())
    if not 1 <= count <= MAX_TRIALS:
        raise ConfigError(f"study: must have at least 1 and at most {MAX_TRIALS} trials. Given: {given(count)}")


def _grid(search: Search) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*search.grid.values()):
        yield dict(zip(search.grid, values, strict=True))


def _random(search: Search, seed: int) -> Iterator[dict[str, Any]]:
    """Draw each word of each trial from a number of its own, so that more trials begin with the same ones."""
    names = sorted((*search.grid, *search.ranges))
    units = iter(data.study_units(seed, search.random * len(names)))
    for _ in range(search.random):
        yield {name: _drawn(name, search, next(units)) for name in names}


def _drawn(name: str, search: Search, unit: float) -> Any:
    if name in search.grid:
        return search.grid[name][int(unit * len(search.grid[name]))]
    bounds = search.ranges[name]
    whole = field_type(WORDS[name]) is int
    low, high = (bounds.low, bounds.high + whole) if whole else (bounds.low, bounds.high)
    value = low * (high / low) ** unit if bounds.scale == "log" else low + (high - low) * unit
    return min(math.floor(value), int(bounds.high)) if whole else value
