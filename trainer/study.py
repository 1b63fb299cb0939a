"""A study: trials of one experiment with other words, and which of them is best."""

import csv
import dataclasses
import io
from collections.abc import Mapping, Sequence
from typing import Any

from trainer import page
from trainer.config import ExperimentConfig, from_mapping, merge
from trainer.history import Epoch
from trainer.search import FIELDS, Search, draw

# Every seed is one of these.
_SEEDS = 2**32


@dataclasses.dataclass(frozen=True)
class Trial:
    """A trial that has been trained; `chosen` is the epoch whose weights would be exported, `fresh_mse` their error."""

    experiment: ExperimentConfig
    epochs: int
    chosen: Epoch
    fresh_mse: float | None = None


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


def best(trials: Sequence[Trial]) -> int:
    """Return the number of the trial with the lowest validation loss, the first of equals."""
    return min(range(len(trials)), key=lambda number: trials[number].chosen.val_loss)


def table(trials: Sequence[Trial]) -> tuple[list[str], list[list[Any]]]:
    """Return the names of the columns and a row for each trial: words that differ, losses, whether it is the best."""
    words = [_words(trial.experiment) for trial in trials]
    differing = [name for name in FIELDS if len({own[name] for own in words}) > 1]
    measured = ["train_loss", "val_loss", "val_accuracy", "fresh_mse", "weights_epoch", "epochs"]
    chosen = best(trials)
    rows = [
        [
            number,
            *(own[name] for name in differing),
            trial.chosen.train_loss,
            trial.chosen.val_loss,
            trial.chosen.val_accuracy,
            "" if trial.fresh_mse is None else trial.fresh_mse,
            trial.chosen.epoch,
            trial.epochs,
            "best" if number == chosen else "",
        ]
        for number, (trial, own) in enumerate(zip(trials, words, strict=True))
    ]
    return ["trial", *differing, *measured, "chosen"], rows


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


def _words(experiment: ExperimentConfig) -> dict[str, Any]:
    words = experiment.model_dump()
    return {**words, **words.pop("options")}
