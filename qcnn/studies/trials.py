"""A study: trials of one experiment with other words, and which of them is best."""

import contextlib
import dataclasses
import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qcnn.artifact_io import text_of
from qcnn.atomic_files import new_file, readable
from qcnn.errors import ConfigError, QcnnError, TrainingError, given
from qcnn.experiment import WORDS, ExperimentConfig, field_type
from qcnn.experiment_io import from_mapping, from_saved, merge
from qcnn.model.history import Epoch
from qcnn.studies.search import Range, Search, draw

# Seeds are below this number.
_SEEDS = 2**32


@dataclasses.dataclass(frozen=True)
class Trial:
    """A trial that has been trained; `chosen` is the epoch whose weights would be exported, `fresh_mse` their error."""

    experiment: ExperimentConfig
    epochs: int
    chosen: Epoch
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

    >>> from qcnn.studies.search import Search
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
    *("qubits", "rounds", "data", "encoding", "scaling", "samples", "seed", "train_fraction", "validation_fraction"),
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
                f"processes; give it one value. Given: {given(list(found))}"
            )
    return first


def whole_bounds(name: str, bounds: Range) -> tuple[float, float]:
    """Return the ends of a range, for a word that is a whole number those numbers within it."""
    if field_type(WORDS[name]) is not int:
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
