"""A study: trials of one experiment with other words, and which of them is best."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from qcnn.trainer.config import ExperimentConfig, from_mapping, merge
from qcnn.trainer.errors import TrainingError
from qcnn.trainer.study.search import Search, draw
from qcnn.trainer.training.history import Epoch

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


def plan(base: Mapping[str, Any], search: Search) -> list[ExperimentConfig]:
    """Return the experiments of a study's trials, each with a seed of its own unless the seed is searched.

    Raises:
        ConfigError: the search cannot be drawn from, or a trial could not run.

    >>> from qcnn.trainer.study.search import Search
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
