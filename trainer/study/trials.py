"""A study: trials of one experiment with other words, and which of them is best."""

import contextlib
import csv
import dataclasses
import io
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainer.config import ExperimentConfig, from_mapping, merge
from trainer.errors import QcnnError, TrainingError
from trainer.folders import new_file, readable
from trainer.results import page
from trainer.study.search import FIELDS, Search, draw
from trainer.training.history import Epoch

logger = logging.getLogger("qcnn")

# Every seed is one of these.
_SEEDS = 2**32
# Stands in the training folder of a trial that failed.
_FAILURE = "failure.json"
_MEASURED = ("train_loss", "val_loss", "val_accuracy", "fresh_mse", "weights_epoch", "epochs")


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
        ConfigError: the search is none, or a trial could not run.
    """
    seed = from_mapping(base).seed
    trials = []
    for number, words in enumerate(draw(search, seed)):
        own = words if "seed" in words else {"seed": (seed + number) % _SEEDS, **words}
        trials.append(from_mapping(merge(base, own)))
    return trials


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
        content = json.loads(path.read_text(encoding="utf-8"))
        return FailedTrial(from_mapping(content["experiment"]), str(content["reason"]))


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


def table(trials: Sequence[Trial | FailedTrial]) -> tuple[list[str], list[list[Any]]]:
    """Return the names of the columns and a row for each trial: words that differ, losses, whether it is the best.

    Where one has failed, the last column says why.
    """
    words = [_words(trial.experiment) for trial in trials]
    differing = [name for name in FIELDS if len({own[name] for own in words}) > 1]
    failures = [trial.reason if isinstance(trial, FailedTrial) else "" for trial in trials]
    chosen = None if all(failures) else best(trials)
    rows = [
        [
            number,
            *(own[name] for name in differing),
            *(_measures(trial) if isinstance(trial, Trial) else [""] * len(_MEASURED)),
            "best" if number == chosen else "",
            *([failure] if any(failures) else []),
        ]
        for number, (trial, own, failure) in enumerate(zip(trials, words, failures, strict=True))
    ]
    return ["trial", *differing, *_MEASURED, "chosen", *(["failure"] if any(failures) else [])], rows


def table_csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return the table as CSV, its numbers unrounded."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def table_page(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return the table as one HTML page that fetches nothing."""
    title = f"{len(rows)} trials, best by validation loss"
    return page.document("Study", title, [page.table(header, shown(rows), ["transparent"] * len(rows))])


def shown(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """Return the rows of a table for people."""
    return [[f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]


def _measures(trial: Trial) -> list[Any]:
    """Return what `_MEASURED` names."""
    chosen = trial.chosen
    fresh_mse = "" if trial.fresh_mse is None else trial.fresh_mse
    return [chosen.train_loss, chosen.val_loss, chosen.val_accuracy, fresh_mse, chosen.epoch, trial.epochs]


def _words(experiment: ExperimentConfig) -> dict[str, Any]:
    words = experiment.model_dump()
    return {**words, **words.pop("options")}
