"""What a study searches, the trials that are drawn from it, and which of them is best."""

import contextlib
import dataclasses
import itertools
import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qcnn import data
from qcnn.artifact_io import text_of
from qcnn.atomic_files import new_file, readable
from qcnn.errors import ConfigError, QcnnError, TrainingError, format_value, single_line
from qcnn.experiment import ALL_FIELDS, ExperimentConfig
from qcnn.experiment_io import current_name, current_value, from_mapping, from_saved, merge
from qcnn.fields import field_type
from qcnn.model.history import EpochMetrics

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
        raise ConfigError(f"grid: must be a mapping of words to lists of values. Given: {format_value(grid)}")
    if not isinstance(ranges, Mapping):
        what = "must be a mapping of words to [low, high] or [low, high, log]"
        raise ConfigError(f"range: {what}. Given: {format_value(ranges)}")
    if not isinstance(random, int | float) or (isinstance(random, float) and not random.is_integer()):
        raise ConfigError(f"random: must be an integer. Given: {format_value(random)}")
    values_of = {
        (field := current_name(name)): [current_value(field, choice) for choice in choices]
        for name, choices in grid.items()
    }
    ranges_of = {(field := current_name(str(name))): _range(field, bounds) for name, bounds in ranges.items()}
    return Search(values_of, ranges_of, int(random))


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
    raise ConfigError(f"{single_line(name)}: a range {form}. Given: {format_value(bounds)}")


def _check(search: Search) -> None:
    """Refuse a search that has no trials, too many, or unknown words."""
    if not search.grid and not search.ranges:
        raise ConfigError("study: needs values or ranges of at least one word. Given: none")
    if search.ranges and not search.random:
        raise ConfigError(
            f"random: must say how many trials are drawn from the ranges. Given: {', '.join(search.ranges)}"
        )
    for name in (*search.grid, *search.ranges):
        if name not in ALL_FIELDS:
            raise ConfigError(f"study: only the experiment's words can be searched. Given: {name}")
        if name in search.grid and name in search.ranges:
            raise ConfigError(f"{name}: must have either values or a range. Given: both")
    for name, values in search.grid.items():
        if not values:
            raise ConfigError(f"{name}: must have at least one value. Given: none")
    for name, bounds in search.ranges.items():
        lowest = 0 if bounds.scale == "log" else -math.inf
        if field_type(ALL_FIELDS[name]) is str or bounds.scale not in _SCALES or not lowest < bounds.low < bounds.high:
            raise ConfigError(
                f"{name}: a range must be of numbers, the lower first, above 0 on a log scale. Given: "
                f"{bounds.low:g} to {bounds.high:g}, {bounds.scale}"
            )
    count = search.random or math.prod(len(values) for values in search.grid.values())
    if not 1 <= count <= MAX_TRIALS:
        raise ConfigError(f"study: must have at least 1 and at most {MAX_TRIALS} trials. Given: {format_value(count)}")


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
    whole = field_type(ALL_FIELDS[name]) is int
    low, high = (bounds.low, bounds.high + whole) if whole else (bounds.low, bounds.high)
    value = low * (high / low) ** unit if bounds.scale == "log" else low + (high - low) * unit
    return min(math.floor(value), int(bounds.high)) if whole else value


# Seeds are below this number.
_SEEDS = 2**32


@dataclasses.dataclass(frozen=True)
class Trial:
    """A trial that has been trained; `chosen` is the epoch whose weights would be exported, `fresh_mse` their error."""

    experiment: ExperimentConfig
    epochs: int
    chosen: EpochMetrics
    fresh_mse: float | None = None


@dataclasses.dataclass(frozen=True)
class FailedTrial:
    """A trial that could not be trained, and why, in one line."""

    experiment: ExperimentConfig
    reason: str


@dataclasses.dataclass(frozen=True)
class StudyPlan:
    """What is asked for: the search as a study's file holds it, the experiment that trials share, and the trials."""

    search: Mapping[str, Any]
    shared: Mapping[str, Any]
    trials: Sequence[ExperimentConfig]

    @property
    def arguments(self) -> dict[str, Any]:
        """What the pipeline of a study is given."""
        searched = {"grid": self.search["grid"] or {}, "ranges": self.search["range"] or {}}
        return {"experiment": self.shared, **searched, "random": self.search["random"] or 0}


def plan(base: Mapping[str, Any], search: Search) -> list[ExperimentConfig]:
    """Return the experiments of a study's trials, each with a seed of its own unless the seed is searched.

    Raises:
        ConfigError: the search cannot be drawn from, or a trial could not run.

    >>> from qcnn.studies.trials import Search
    >>> trials = plan({"qubits": 4, "seed": 7}, Search(grid={"learning_rate": [0.01, 0.1]}))
    >>> [(trial.learning_rate, trial.seed) for trial in trials]
    [(0.01, 7), (0.1, 8)]
    """
    seed = from_mapping(base).seed
    trials = []
    for number, words in enumerate(draw(search, seed)):
        own = words if "seed" in words else {"seed": (seed + number) % _SEEDS, **words}
        trials.append(from_mapping(merge(base, own)))
    return trials


def best(trials: Sequence[Trial | FailedTrial]) -> int:
    """Return the number of the trial with the lowest validation loss, the first of equals.

    Raises:
        TrainingError: all have failed.
    """
    losses = {number: trial.chosen.val_loss for number, trial in enumerate(trials) if isinstance(trial, Trial)}
    if not losses:
        reasons = [trial.reason for trial in trials if isinstance(trial, FailedTrial)]
        raise TrainingError(f"study: all {len(trials)} trials failed; the first: {reasons[0]}")
    return min(losses, key=losses.__getitem__)


logger = logging.getLogger("qcnn")

# Stands in the training folder of a trial that failed.
_FAILURE = "failure.json"


@contextlib.contextmanager
def failure_kept(experiment: ExperimentConfig, training: Path) -> Iterator[None]:
    """Write into a trial's training folder why this block failed, and go on: its study does, too."""
    try:
        yield
    except QcnnError as error:
        logger.error("error: %s", error)
        save_failure(FailedTrial(experiment, str(error)), training)


def save_failure(failed: FailedTrial, training: Path) -> None:
    """Write into a training folder that its trial failed."""
    content = {"experiment": failed.experiment.model_dump(), "reason": failed.reason}
    with new_file(training / _FAILURE) as unfinished:
        unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load_failure(training: Path) -> FailedTrial | None:
    """Return what `save_failure` wrote, None where nothing is.

    Raises:
        ArtifactError: the file is damaged.
    """
    path = training / _FAILURE
    if not path.exists():
        return None
    with readable("training", path):
        content = json.loads(text_of(path))
        return FailedTrial(from_saved(content["experiment"]), str(content["reason"]))


# The data of all trials are made once, and all have the same processes.
SHARED = (
    *(
        "qubits",
        "rounds",
        "data",
        "encoding",
        "feature_scaling",
        "max_samples",
        "seed",
        "train_fraction",
        "validation_fraction",
    ),
    *("workers", "strategy"),
)


def shared_experiment(base: Mapping[str, Any], search: Search) -> ExperimentConfig:
    """Return the experiment of one trial, whose words of SHARED are those of all.

    Raises:
        ConfigError: the search cannot be drawn from, has no number of trials, has a trial that could not run, or one
            with other data or processes than the rest.
    """
    if not search.random:
        raise ConfigError("random: must say how many trials the tuner may choose. Given: none")
    drawn = plan(base, search)
    trials = [from_mapping(merge(base, words)) for words in _corners(search)]
    first = trials[0]
    # Each of those that are drawn has a seed of its own.
    trials += [trial.model_copy(update={"seed": first.seed}) for trial in drawn]
    for name in SHARED:
        found = dict.fromkeys(_word(trial, name) for trial in trials)
        if len(found) > 1:
            raise ConfigError(
                f"{name}: must be the same in all trials of a tuner, which share their data and their number of "
                f"processes; give it one value. Given: {format_value(list(found))}"
            )
    return first


def whole_bounds(name: str, bounds: Range) -> tuple[float, float]:
    """Return the ends of a range, for a word that is a whole number those numbers within it."""
    if field_type(ALL_FIELDS[name]) is not int:
        return bounds.low, bounds.high
    return math.ceil(bounds.low), math.floor(bounds.high)


def _corners(search: Search) -> Iterator[dict[str, Any]]:
    """Yield the words of a trial at one end of everything that is searched, and of others that differ in one word."""
    ends = {name: list(values) for name, values in search.grid.items()}
    ends |= {name: list(whole_bounds(name, bounds)) for name, bounds in search.ranges.items()}
    first = {name: values[0] for name, values in ends.items()}
    yield first
    for name, values in ends.items():
        for value in values[1:]:
            yield {**first, name: value}


def _word(trial: ExperimentConfig, name: str) -> Any:
    return getattr(trial, name) if name in type(trial).model_fields else getattr(trial.options, name)
