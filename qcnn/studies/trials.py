"""Search spaces of studies, sampling of trials, and selection of the best trial."""

import contextlib
import dataclasses
import itertools
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qcnn import data
from qcnn.artifact_io import load_description, save_description
from qcnn.atomic_files import new_file, readable
from qcnn.errors import ConfigError, QcnnError, TrainingError, format_value, single_line
from qcnn.experiment.config import ALL_FIELDS, ExperimentConfig
from qcnn.experiment.fields import field_type
from qcnn.experiment.parsing import from_mapping, merge
from qcnn.experiment.saved import from_saved
from qcnn.model.history import EpochMetrics
from qcnn.monitoring.validation_metrics import SELECTION_METRICS, VAL_LOSS, parse_metric
from qcnn.studies.rows import SEED_PLACEHOLDER, RepeatedRows, StudyRow, parse_rows, repeated_rows
from qcnn.studies.tables import StudyDataset

MAX_TRIALS = 1000
# Number of trials that are trained at the same time.
PARALLELISM = 2
# Largest absolute value of a bound, so that the width of a range is finite.
_MAX_BOUND = 1e300
_SCALES = ("linear", "log")


@dataclasses.dataclass(frozen=True)
class Range:
    """Closed interval from `low` to `high`, sampled uniformly, or log-uniformly with scale log."""

    low: float
    high: float
    scale: str = "linear"


@dataclasses.dataclass(frozen=True)
class Search:
    """Search space: lists of values (`grid`) and ranges by field, or `rows`.

    `random` is the number of trials to sample, or 0 for all combinations of the grid. `metric` selects the best trial.
    `repeat` is the number of seeds of each row or combination, or 0: then trials of a grid have different seeds.
    """

    grid: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    ranges: Mapping[str, Range] = dataclasses.field(default_factory=dict)
    random: int = 0
    metric: str = VAL_LOSS
    rows: Sequence[StudyRow] = ()
    repeat: int = 0

    @property
    def is_repeated(self) -> bool:
        """True if all rows or combinations have the same seeds."""
        return bool(self.rows or self.repeat)


def search_from_mapping(values: Mapping[str, Any]) -> Search:
    """Parse a search space.

    The keys are `grid` (field: values), `range` (field: [low, high] or [low, high, log]), `random` (a number),
    `metric` (val_loss or val_accuracy), `rows` (see `qcnn.studies.rows.parse_rows`) and `repeat` (a number).

    Raises:
        ConfigError: If a value has another form.
    """
    grid, ranges, random = values.get("grid") or {}, values.get("range") or {}, values.get("random") or 0
    if not isinstance(grid, Mapping) or not all(isinstance(choices, list) for choices in grid.values()):
        raise ConfigError(f"grid: must be a mapping of fields to lists of values. Given: {format_value(grid)}")
    if not isinstance(ranges, Mapping):
        what = "must be a mapping of fields to [low, high] or [low, high, log]"
        raise ConfigError(f"range: {what}. Given: {format_value(ranges)}")
    ranges_of = {str(name): _range(str(name), bounds) for name, bounds in ranges.items()}
    return Search(
        dict(grid),
        ranges_of,
        _integer("random", random),
        parse_metric(values.get("metric")),
        parse_rows(values.get("rows")),
        _integer("repeat", values.get("repeat") or 0),
    )


def _integer(name: str, value: Any) -> int:
    if not isinstance(value, int | float) or (isinstance(value, float) and not value.is_integer()):
        raise ConfigError(f"{name}: must be an integer. Given: {format_value(value)}")
    return int(value)


def draw(search: Search, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the searched fields of each trial.

    Raises:
        ConfigError: If there are no trials, too many trials, or unknown fields.
    """
    _check(search)
    if search.rows:
        yield from (dict(row.fields) for row in search.rows)
    else:
        yield from _random(search, seed) if search.random else _grid_values(search)


def _range(name: str, bounds: Any) -> Range:
    match bounds:
        case [int() | float() as low, int() | float() as high, *rest] if not max(abs(low), abs(high)) > _MAX_BOUND:
            if not rest or (len(rest) == 1 and isinstance(rest[0], str)):
                return Range(low, high, *rest)
    form = f"must be [low, high], or [low, high, log], of numbers up to {_MAX_BOUND:g} in size"
    raise ConfigError(f"{single_line(name)}: a range {form}. Given: {format_value(bounds)}")


def _check(search: Search) -> None:
    """Raise ConfigError if a search has no trials, too many trials, or unknown fields."""
    if search.rows and (search.grid or search.ranges or search.random):
        raise ConfigError("rows: must not be given with grid, range or random. Given: both")
    if not search.grid and not search.ranges and not search.rows:
        raise ConfigError("study: must have values or ranges for at least one field, or rows. Given: none")
    if search.repeat < 0 or search.repeat > MAX_TRIALS:
        raise ConfigError(f"repeat: must be 1 to {MAX_TRIALS}, or 0 for none. Given: {format_value(search.repeat)}")
    varied = (*search.grid, *search.ranges, *(name for row in search.rows for name in row.fields))
    if search.is_repeated and "seed" in varied:
        raise ConfigError("seed: must not be searched with rows or repeat, which count it up. Given: seed")
    if search.ranges and not search.random:
        raise ConfigError(
            f"random: must be the number of trials to sample from the ranges. Given: ranges {', '.join(search.ranges)}"
        )
    for name in (*search.grid, *search.ranges):
        if name not in ALL_FIELDS:
            raise ConfigError(f"study: must search fields of the experiment. Given: {name}")
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
    count = len(search.rows) or search.random or math.prod(len(values) for values in search.grid.values())
    count *= max(1, search.repeat)
    if not 1 <= count <= MAX_TRIALS:
        raise ConfigError(f"study: must have at least 1 and at most {MAX_TRIALS} trials. Given: {format_value(count)}")


def _grid_values(search: Search) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*search.grid.values()):
        yield dict(zip(search.grid, values, strict=True))


def _random(search: Search, seed: int) -> Iterator[dict[str, Any]]:
    """Sample each field of each trial from a separate number, so that more trials extend a sequence."""
    names = sorted((*search.grid, *search.ranges))
    units = iter(data.study_units(seed, search.random * len(names)))
    for _ in range(search.random):
        yield {name: _sample(name, search, next(units)) for name in names}


def _sample(name: str, search: Search, unit: float) -> Any:
    if name in search.grid:
        return search.grid[name][int(unit * len(search.grid[name]))]
    bounds = search.ranges[name]
    whole = field_type(ALL_FIELDS[name]) is int
    low, high = (bounds.low, bounds.high + whole) if whole else (bounds.low, bounds.high)
    value = low * (high / low) ** unit if bounds.scale == "log" else low + (high - low) * unit
    return min(math.floor(value), int(bounds.high)) if whole else value


# Number of valid seeds.
SEEDS = 2**32


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """Metrics of a trial on its test split.

    Attributes:
        metrics: Metrics by name, those of the evaluation of a run.
        samples: Number of test samples.
        split: Digest of all samples, in the order of the splits.
    """

    metrics: Mapping[str, float]
    samples: int
    split: str


@dataclasses.dataclass(frozen=True)
class Trial:
    """Trained trial.

    `chosen` is the epoch whose weights would be exported, and `fresh_mse` the error of these weights on fresh samples.
    `seconds` is the duration of all epochs. `evaluated` is set in studies with repeated rows.
    """

    experiment: ExperimentConfig
    epochs: int
    chosen: EpochMetrics
    fresh_mse: float | None = None
    seconds: float = 0.0
    evaluated: Evaluated | None = None


@dataclasses.dataclass(frozen=True)
class FailedTrial:
    """Trial that could not be trained, with a single-line reason."""

    experiment: ExperimentConfig
    reason: str


@dataclasses.dataclass(frozen=True)
class StudyPlan:
    """Requested study: the search as in a study file, the shared experiment fields, the trials, and its datasets."""

    search: Mapping[str, Any]
    shared: Mapping[str, Any]
    trials: Sequence[ExperimentConfig]
    datasets: Mapping[str, StudyDataset] = dataclasses.field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the study pipeline."""
        searched = {"grid": self.search["grid"] or {}, "ranges": self.search["range"] or {}}
        metric = {} if self.metric == VAL_LOSS else {"metric": self.metric}
        rows = {name: self.search[name] for name in ("rows", "repeat") if self.search.get(name)}
        return {"experiment": self.shared, **searched, "random": self.search["random"] or 0, **metric, **rows}

    @property
    def metric(self) -> str:
        """Metric that selects the best trial."""
        return parse_metric(self.search.get("metric"))

    @property
    def repeated(self) -> RepeatedRows | None:
        """Rows that the trials repeat, or None."""
        return repeated_rows(parse_rows(self.search.get("rows")), self.search.get("repeat") or 0, len(self.trials))


def plan(base: Mapping[str, Any], search: Search) -> list[ExperimentConfig]:
    """Return the experiments of a study's trials, each with a different seed unless the seed is searched.

    Rows that are repeated have the same seeds, and the trials of a row follow each other. In the path of a data file,
    `{seed}` stands for the seed.

    Raises:
        ConfigError: If the search is invalid, or a trial cannot run.

    >>> from qcnn.studies.trials import Search
    >>> trials = plan({"qubits": 4, "seed": 7}, Search(grid={"learning_rate": [0.01, 0.1]}))
    >>> [(trial.learning_rate, trial.seed) for trial in trials]
    [(0.01, 7), (0.1, 8)]
    """
    seed = from_mapping(merge(base, search.rows[0].fields) if search.rows else base).seed
    trials = []
    for number, fields in enumerate(draw(search, seed)):
        counted = range(max(1, search.repeat)) if search.is_repeated else [number]
        for each in counted:
            with_seed = fields if "seed" in fields else {"seed": (seed + each) % SEEDS, **fields}
            trials.append(from_mapping(_with_seed_in_path(merge(base, with_seed))))
    return trials


def _with_seed_in_path(fields: dict[str, Any]) -> dict[str, Any]:
    data = fields.get("data")
    if isinstance(data, str) and SEED_PLACEHOLDER in data:
        return {**fields, "data": data.replace(SEED_PLACEHOLDER, str(fields["seed"]))}
    return fields


def best(trials: Sequence[Trial | FailedTrial], metric: str = VAL_LOSS) -> int:
    """Return the number of the best trial, see `ranking`.

    Raises:
        TrainingError: If all trials have failed.
    """
    if all(isinstance(trial, FailedTrial) for trial in trials):
        reasons = [trial.reason for trial in trials if isinstance(trial, FailedTrial)]
        raise TrainingError(f"study: all {len(trials)} trials failed; the first: {reasons[0]}")
    return ranking(trials, metric)[0]


def ranking(trials: Sequence[Trial | FailedTrial], metric: str = VAL_LOSS) -> list[int]:
    """Return the numbers of the trials, the best first and those that failed last.

    Trials are ranked by a metric of the validation split, then by validation loss, then by number.

    Args:
        trials: Trials of the study.
        metric: One of `qcnn.monitoring.validation_metrics.SELECTION_METRICS`.
    """

    def key(number: int) -> tuple[bool, bool, float, float, int]:
        trial = trials[number]
        if isinstance(trial, FailedTrial):
            return True, True, 0.0, 0.0, number
        value = getattr(trial.chosen, metric)
        # An accuracy is a fraction of samples. The order of its sum, which rounds, must not decide between equal ones.
        signed = 0.0 if value is None else -round(value, 9) if SELECTION_METRICS[metric].is_maximized else value
        return False, value is None, signed, trial.chosen.val_loss, number

    return sorted(range(len(trials)), key=key)


def is_without(trial: Trial | FailedTrial, metric: str) -> bool:
    """Return whether a trial has succeeded, but has no such metric, as a regression has no accuracy."""
    return isinstance(trial, Trial) and getattr(trial.chosen, metric) is None


logger = logging.getLogger("qcnn")

# File in the training folder of a failed trial.
_FAILURE = "failure.json"


@contextlib.contextmanager
def failure_kept(experiment: ExperimentConfig, training: Path) -> Iterator[None]:
    """Context manager that records a QcnnError as a failed trial, so that the study continues."""
    try:
        yield
    except QcnnError as error:
        logger.error("error: %s", error)
        save_failure(FailedTrial(experiment, str(error)), training)


def save_failure(failed: FailedTrial, training: Path) -> None:
    """Write a failed trial into its training folder."""
    content = {"experiment": failed.experiment.model_dump(), "reason": failed.reason}
    with new_file(training / _FAILURE) as unfinished:
        save_description(content, unfinished)


def load_failure(training: Path) -> FailedTrial | None:
    """Return the failed trial of a training folder, or None if the trial has not failed.

    Raises:
        ArtifactError: If the file is damaged.
    """
    path = training / _FAILURE
    if not path.exists():
        return None
    with readable("training", path):
        content = load_description("training", path, unversioned=True)
        return FailedTrial(from_saved(content["experiment"]), str(content["reason"]))


# Fields that trials of a tuner share: the dataset is generated once, and all trials have the same processes.
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
    """Return the experiment of one trial, which has the same `SHARED` fields as all trials.

    Raises:
        ConfigError: If the search is invalid or has no number of trials, a trial cannot run, or trials differ in data
            or processes.
    """
    if name := "rows" if search.rows else "repeat" if search.repeat else "":
        raise ConfigError(f"{name}: must not be given with a tuner, which selects the trials. Given: {name}")
    if not search.random:
        raise ConfigError("random: must be the number of trials of the tuner. Given: none")
    sampled = plan(base, search)
    trials = [from_mapping(merge(base, fields)) for fields in _corners(search)]
    first = trials[0]
    # The sampled trials have different seeds.
    trials += [trial.model_copy(update={"seed": first.seed}) for trial in sampled]
    for name in SHARED:
        values = dict.fromkeys(_field_value(trial, name) for trial in trials)
        if len(values) > 1:
            raise ConfigError(
                f"{name}: must be the same in all trials of a tuner, which share their data and their number of "
                f"processes; set one value. Given: {format_value(list(values))}"
            )
    return first


def whole_bounds(name: str, bounds: Range) -> tuple[float, float]:
    """Return the bounds of a range, rounded inwards for an integer field."""
    if field_type(ALL_FIELDS[name]) is not int:
        return bounds.low, bounds.high
    return math.ceil(bounds.low), math.floor(bounds.high)


def _corners(search: Search) -> Iterator[dict[str, Any]]:
    """Yield the fields of a trial at one end of all values, and of trials that differ in one field."""
    ends = {name: list(values) for name, values in search.grid.items()}
    ends |= {name: list(whole_bounds(name, bounds)) for name, bounds in search.ranges.items()}
    first = {name: values[0] for name, values in ends.items()}
    yield first
    for name, values in ends.items():
        for value in values[1:]:
            yield {**first, name: value}


def _field_value(trial: ExperimentConfig, name: str) -> Any:
    return getattr(trial, name) if name in type(trial).model_fields else getattr(trial.options, name)
