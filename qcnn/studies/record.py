"""Record of a local study: its trials, the finished ones, and the table of results."""

import contextlib
import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qcnn.artifact_io import load_description, save_description
from qcnn.atomic_files import new_file, readable
from qcnn.errors import ArtifactError
from qcnn.experiment import ALL_FIELDS, ExperimentConfig
from qcnn.experiment_io import from_saved, with_display_values
from qcnn.results import html
from qcnn.results.local_run import FILE as RUN_FILE
from qcnn.results.local_run import check_output, read_record
from qcnn.studies.trials import FailedTrial, Trial, best

_FILE = "study.json"


def save_trials(trials: Sequence[ExperimentConfig], folder: Path) -> None:
    """Write the experiments of a study's trials into its folder.

    Raises:
        ArtifactError: If the folder cannot be written.
    """
    with new_file(folder / _FILE) as unfinished:
        save_description({"trials": [trial.model_dump() for trial in trials]}, unfinished)


def load_trials(folder: Path) -> list[ExperimentConfig]:
    """Read the experiments of a study's trials.

    Raises:
        ArtifactError: If the folder is no study folder, or the file is damaged.
    """
    with readable("study", folder / _FILE):
        content = load_description("study", folder / _FILE, unversioned=True)
        return [from_saved(fields) for fields in content["trials"]]


def finished_trials(folder: Path) -> Mapping[ExperimentConfig, Path]:
    """Return the folders of finished trials by experiment, including trials that failed."""
    finished = {}
    for path in folder.glob(f"*/{RUN_FILE}"):
        try:
            record = read_record(path.parent)
        except (OSError, ValueError):
            raise ArtifactError(f"study: a trial's record is damaged. Given: {path}") from None
        if record.state == "succeeded":
            finished[from_saved(record.words)] = path.parent
    return finished


_MEASURED = ("train_loss", "val_loss", "val_accuracy", "fresh_mse", "weights_epoch", "epochs")


def table(trials: Sequence[Trial | FailedTrial]) -> tuple[list[str], list[list[Any]]]:
    """Return the column names and one row per trial, with fields that differ, metrics and the best.

    If a trial has failed, the last column has the reasons.
    """
    fields = [_field_values(trial.experiment) for trial in trials]
    differing = [name for name in ALL_FIELDS if len({own[name] for own in fields}) > 1]
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
        for number, (trial, own, failure) in enumerate(zip(trials, fields, failures, strict=True))
    ]
    return ["trial", *differing, *_MEASURED, "chosen", *(["failure"] if any(failures) else [])], rows


def table_csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return the table as CSV with unrounded numbers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def read_table(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a file written by `table_csv`, with None for empty cells.

    Raises:
        ArtifactError: If the file is not that of the study.
    """
    check_output(path)
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _cell(text) for name, text in row.items()} for row in csv.DictReader(file)]


def table_page(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return the table as a self-contained HTML page."""
    title = f"{len(rows)} trials, best by validation loss"
    return html.document("Study", title, [html.table(header, format_rows(rows), ["transparent"] * len(rows))])


def format_rows(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """Return the rows of a table as text, with numbers rounded to 6 digits."""
    return [[f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]


def _cell(text: str) -> float | str | None:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text or None


def _measures(trial: Trial) -> list[Any]:
    """Return the values of the columns `_MEASURED`."""
    chosen = trial.chosen
    optional = ("" if value is None else value for value in (chosen.val_accuracy, trial.fresh_mse))
    return [chosen.train_loss, chosen.val_loss, *optional, chosen.epoch, trial.epochs]


def _field_values(experiment: ExperimentConfig) -> dict[str, Any]:
    values = with_display_values(experiment.model_dump())
    return {**values, **values.pop("options")}
