"""A search that a tuner goes through, who chooses each trial by those before: what all of its trials must share."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from qcnn.trainer.config import WORDS, ExperimentConfig, field_type, from_mapping, merge
from qcnn.trainer.errors import ConfigError, given
from qcnn.trainer.study.search import Range, Search
from qcnn.trainer.study.trials import plan

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
