"""Record of a local study: its trials, the finished ones, and the table of results."""

import contextlib
import csv
import dataclasses
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcnn.artifact_io import load_description, save_description
from qcnn.atomic_files import new_file, readable
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ALL_FIELDS, ExperimentConfig, all_fields
from qcnn.experiment.parsing import with_display_values
from qcnn.experiment.saved import from_saved
from qcnn.monitoring.validation_metrics import SELECTION_METRICS, VAL_ACCURACY, VAL_LOSS, parse_metric
from qcnn.results import html
from qcnn.results.local_run import FILE as RUN_FILE
from qcnn.results.local_run import RunRecord, check_output, read_record
from qcnn.studies.row_results import RowResult, page_parts
from qcnn.studies.rows import RepeatedRows
from qcnn.studies.trials import SEEDS, Evaluated, FailedTrial, Trial, best, ranking

if TYPE_CHECKING:
    from qcnn.results import comparison

_FILE, _METRIC, _REPEATED = "study.json", "metric", "repeated"
_CHOSEN, _EVALUATED = "chosen", "evaluated"
# Name and output folder of the last step of a study.
SELECT_STEP = "select-best"
_EVALUATED_FILE = f"{SELECT_STEP}/trials.json"


def save_trials(
    trials: Sequence[ExperimentConfig], folder: Path, metric: str = VAL_LOSS, repeated: RepeatedRows | None = None
) -> None:
    """Write the experiments of a study's trials, and what its last step needs, into its folder.

    Args:
        trials: Experiments of the trials.
        folder: Folder of the study.
        metric: Metric that selects the best trial.
        repeated: Rows that the trials repeat, or None.

    Raises:
        ArtifactError: If the folder cannot be written.
    """
    with new_file(folder / _FILE) as unfinished:
        selected = {} if metric == VAL_LOSS else {_METRIC: metric}
        rows = {_REPEATED: repeated.to_mapping()} if repeated else {}
        save_description({"trials": [trial.model_dump() for trial in trials], **selected, **rows}, unfinished)


def load_trials(folder: Path) -> list[ExperimentConfig]:
    """Read the experiments of a study's trials.

    Raises:
        ArtifactError: If the folder is no study folder, or the file is damaged.
    """
    with readable("study", folder / _FILE):
        content = load_description("study", folder / _FILE, unversioned=True)
        return [from_saved(fields) for fields in content["trials"]]


def load_metric(folder: Path) -> str:
    """Read the metric that selects the best trial of a study.

    Raises:
        ArtifactError: If the folder is no study folder, or the file is damaged.
    """
    with readable("study", folder / _FILE):
        return parse_metric(load_description("study", folder / _FILE, unversioned=True).get(_METRIC))


def load_repeated(folder: Path) -> RepeatedRows | None:
    """Read the rows that the trials of a study repeat, or None if it has none.

    Raises:
        ArtifactError: If the folder is no study folder, or the file is damaged.
    """
    with readable("study", folder / _FILE):
        found = load_description("study", folder / _FILE, unversioned=True).get(_REPEATED)
        return None if found is None else RepeatedRows.from_mapping(found)


def save_evaluated(chosen: int, trials: Sequence[Trial | FailedTrial], folder: Path) -> None:
    """Write the index of the exported trial and what the test splits of all trials gave into the folder of a study.

    Args:
        chosen: Index of the exported trial.
        trials: Trials of the study, with the metrics of their test splits.
        folder: Folder of the study.

    Raises:
        ArtifactError: If the file cannot be written.
    """
    found = [
        dataclasses.asdict(each.evaluated) if isinstance(each, Trial) and each.evaluated else None for each in trials
    ]
    with new_file(folder / _EVALUATED_FILE) as unfinished:
        save_description({_CHOSEN: chosen, _EVALUATED: found}, unfinished)


def load_evaluated(folder: Path, trials: Sequence[Trial | FailedTrial]) -> tuple[int, list[Trial | FailedTrial]]:
    """Return what `save_evaluated` wrote: the index of the exported trial, and trials with their metrics.

    Args:
        folder: Folder of the study.
        trials: Trials of the study.

    Raises:
        ArtifactError: If the file is missing or damaged.
    """
    with readable("study", folder / _EVALUATED_FILE):
        chosen, found = _read_evaluated(folder)
        return chosen, [
            dataclasses.replace(trial, evaluated=each) if isinstance(trial, Trial) else trial
            for trial, each in zip(trials, found, strict=True)
        ]


def metrics_by_trial(folder: Path) -> dict[Path, Mapping[str, float]]:
    """Return the metrics of the test splits by the folder of the trial, or none if the last step evaluates no trials.

    Raises:
        ArtifactError: If a file of the study is damaged.
    """
    if not (folder / _EVALUATED_FILE).exists():
        return {}
    with readable("study", folder / _EVALUATED_FILE):
        _, found = _read_evaluated(folder)
        folders = folders_by_trial(folder, load_trials(folder))
        return {trial: each.metrics for trial, each in zip(folders, found, strict=True) if each}


def _read_evaluated(folder: Path) -> tuple[int, list[Evaluated | None]]:
    content = load_description("study", folder / _EVALUATED_FILE, unversioned=True)
    return int(content[_CHOSEN]), [None if each is None else Evaluated(**each) for each in content[_EVALUATED]]


def is_study(folder: Path) -> bool:
    """Return whether a folder is that of a study."""
    return (folder / _FILE).is_file()


def has_succeeded(folder: Path) -> bool:
    """Return whether the best trial of a study has been selected and evaluated."""
    return (folder / SELECT_STEP / "metrics").exists()


def trial_folders(folder: Path) -> list[Path]:
    """Return the folders of a study's trials, in the order in which they started."""
    return sorted(path.parent for path in folder.glob(f"*/{RUN_FILE}"))


def folders_by_trial(folder: Path, trials: Sequence[ExperimentConfig]) -> list[Path]:
    """Return the last folder of each trial of a study whose trials have all been started, in the order of `trials`."""
    by_experiment = {from_saved(_record(trial).words): trial for trial in trial_folders(folder)}
    return [by_experiment[trial] for trial in trials]


def finished_trials(folder: Path) -> Mapping[ExperimentConfig, Path]:
    """Return the folders of finished trials by experiment, including trials that failed."""
    finished = {}
    for trial in trial_folders(folder):
        record = _record(trial)
        if record.state == "succeeded":
            finished[from_saved(record.words)] = trial
    return finished


def _record(trial: Path) -> RunRecord:
    try:
        return read_record(trial)
    except (OSError, ValueError):
        raise ArtifactError(f"study: a trial's record is damaged. Given: {trial / RUN_FILE}") from None


# Metrics of a trial, the one that selects the best trial first.
METRICS = (VAL_LOSS, "train_loss", VAL_ACCURACY, "fresh_mse")
_MEASURED = ("train_loss", "val_loss", "val_accuracy", "fresh_mse", "weights_epoch", "epochs")
# Metrics of the test split, if trials have them.
_TESTED = ("loss", "accuracy")


def table(
    trials: Sequence[Trial | FailedTrial], metric: str = VAL_LOSS, chosen: int | None = None
) -> tuple[list[str], list[list[Any]]]:
    """Return the column names and one row per trial, with fields that differ, metrics and the best.

    If a trial has failed, the last column has the reasons.

    Args:
        trials: Trials of the study.
        metric: Metric that selects the best trial.
        chosen: Index of the trial that is marked. None: the best one.
    """
    fields = [_field_values(trial.experiment) for trial in trials]
    differing = [name for name in ALL_FIELDS if len({own[name] for own in fields}) > 1]
    failures = [trial.reason if isinstance(trial, FailedTrial) else "" for trial in trials]
    tested = [trial.evaluated.metrics if isinstance(trial, Trial) and trial.evaluated else {} for trial in trials]
    names = [name for name in _TESTED if any(name in metrics for metrics in tested)]
    if chosen is None and not all(failures):
        chosen = best(trials, metric)
    rows = [
        [
            number,
            *(own[name] for name in differing),
            *(_measures(trial) if isinstance(trial, Trial) else [""] * len(_MEASURED)),
            *(tested[number].get(name, "") for name in names),
            "best" if number == chosen else "",
            *([failure] if any(failures) else []),
        ]
        for number, (trial, own, failure) in enumerate(zip(trials, fields, failures, strict=True))
    ]
    header = ["trial", *differing, *_MEASURED, *(f"test_{name}" for name in names), _CHOSEN]
    return [*header, *(["failure"] if any(failures) else [])], rows


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


def compared_rows(
    trials: Sequence[Trial | FailedTrial], report: str = "", metric: str = VAL_LOSS, chosen: int | None = None
) -> "tuple[list[str], list[comparison.ComparedRow]]":
    """Return the trials as rows to compare, best first, with the names of their columns.

    Args:
        trials: Trials of the study.
        report: Path of the report of the marked trial, or empty.
        metric: Metric that selects the best trial.
        chosen: Index of the trial that is first and marked. None: the best one.
    """
    # Matplotlib takes a second to import.
    from qcnn.results import comparison

    names, cells = table(trials, metric, chosen)
    order = ranking(trials, metric)
    if chosen is not None:
        order = [chosen, *(number for number in order if number != chosen)]
    # The trial has a mark instead. A field and a measured value may have the same name.
    marks = names.index(_CHOSEN)
    header = [name if name not in names[:index] else f"trained {name}" for index, name in enumerate(names)]
    header.pop(marks)
    experiments = [trial.experiment for trial in trials]
    dumped = [experiment.model_dump() for experiment in experiments]
    fields = comparison.independent_fields(_searched_fields(experiments), dumped)
    rows = []
    for rank, number in enumerate(order):
        values, texts = (
            dict(zip(header, row[:marks] + row[marks + 1 :], strict=True))
            for row in (cells[number], *format_rows([cells[number]]))
        )
        own = {name: value for name, value in _field_values(trials[number].experiment).items() if name in fields}
        trial = trials[number]
        loss, place = (trial.chosen.val_loss, rank) if isinstance(trial, Trial) else (None, None)
        rows.append(comparison.ComparedRow(values, texts, own, loss, place, report if place == 0 else ""))
    return header, rows


def table_page(trials: Sequence[Trial | FailedTrial], report: str = "", metric: str = VAL_LOSS) -> str:
    """Return the trials as a self-contained HTML page, best first, with plots of a metric against searched fields.

    Args:
        trials: Trials of the study.
        report: Report of the best trial: a path relative to the page, or a URI, or empty if there is none.
        metric: Metric that selects the best trial.
    """
    # Matplotlib takes a second to import.
    from qcnn.results import comparison

    is_uri = "://" in report
    header, rows = compared_rows(trials, "" if is_uri else report, metric)
    selected = SELECTION_METRICS[metric]
    parts = [html.heading("Trials"), comparison.table(header, rows)]
    if is_uri:
        # Links do not open in Kubeflow Pipelines.
        parts.append(html.note(f"Report of trial {rows[0].values['trial']}: {report}"))
    if figures := comparison.field_figures(rows, metric):
        parts += [html.heading(selected.title.capitalize()), html.columns(map(html.figure, figures))]
    subtitle = f"{len(trials)} trials, the {selected.best} first; a click on a column sorts by it"
    return html.document("Study", subtitle, parts, sortable=True)


def repeated_page(
    trials: Sequence[Trial | FailedTrial], results: Sequence[RowResult], chosen: int, report: str, metric: str
) -> str:
    """Return the page of a study with repeated rows: the rows, and its trials.

    Args:
        trials: Trials of the study, evaluated.
        results: Results of the rows.
        chosen: Index of the exported trial.
        report: Report of this trial, as in `table_page`.
        metric: Metric that selects the best row.
    """
    # Matplotlib takes a second to import.
    from qcnn.results import comparison

    is_uri = "://" in report
    header, rows = compared_rows(trials, "" if is_uri else report, metric, chosen)
    parts = [*page_parts(results), html.heading("Trials"), comparison.table(header, rows)]
    selected = SELECTION_METRICS[metric]
    note = f"Trial {chosen} is exported: the first seed of the row with the {selected.best} in the mean."
    parts.append(html.note(f"{note} Its report: {report}" if is_uri else note))
    subtitle = f"{len(results)} rows, {len(trials)} trials; a click on a column sorts by it"
    return html.document("Study", subtitle, parts, sortable=True)


def _searched_fields(experiments: Sequence[ExperimentConfig]) -> list[str]:
    """Return the fields that differ between trials, without a seed that only counts the trials."""
    fields = [_field_values(experiment) for experiment in experiments]
    differing = [name for name in ALL_FIELDS if len({own[name] for own in fields}) > 1]
    seeds = [own["seed"] for own in fields]
    is_counted = all((seed - seeds[0]) % SEEDS == number for number, seed in enumerate(seeds))
    counted = ("seed",) if is_counted and differing != ["seed"] else ()
    return [name for name in differing if name not in counted]


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
    return with_display_values(all_fields(experiment))
