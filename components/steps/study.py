"""Steps of a study: plan the trials and select the best one."""

import contextlib
import dataclasses
import logging
import math
import os
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from qcnn import data
from qcnn.atomic_files import new_file
from qcnn.circuits.formats.loading import with_circuits, with_embedded_circuit
from qcnn.components.steps.evaluate import fitted_baselines
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.program_key import program_key
from qcnn.model import checkpoints
from qcnn.model.history import exported_epoch
from qcnn.monitoring.validation_metrics import SELECTION_METRICS, VAL_LOSS, parse_metric
from qcnn.planning.checks import STEP, check_experiments
from qcnn.process.library_loading import quiet_tracing, start_compiler
from qcnn.results.baselines import metrics_of
from qcnn.studies.record import format_rows, repeated_page, table, table_csv, table_page
from qcnn.studies.row_results import baseline_table, best_row, legend, row_results, short_table
from qcnn.studies.row_results import table as rows_table
from qcnn.studies.rows import RepeatedRows, with_embedded_circuits
from qcnn.studies.trials import (
    Evaluated,
    FailedTrial,
    Search,
    Trial,
    best,
    is_without,
    load_failure,
    plan,
    search_from_mapping,
    shared_experiment,
)
from qcnn.tracking.background import sent_later, track_results
from qcnn.tracking.destination import destination_in
from qcnn.tracking.identity import Identity, identity_of_study, read_identity, write_identity
from qcnn.tracking.tracked_run import Results, TrackedRun, study_run, tracked_trials


def plan_study(
    experiment: Mapping[str, Any],
    grid: Mapping[str, Any],
    ranges: Mapping[str, Any],
    random: int,
    data_sha256: Mapping[str, str],
    metric: str = VAL_LOSS,
    rows: Sequence[Mapping[str, Any]] = (),
    repeat: int = 0,
) -> list[str]:
    """Validate a study and return the experiment of each trial as JSON.

    Args:
        experiment: Fields that all trials share.
        grid: Values by field.
        ranges: Numeric ranges by field.
        random: Number of random trials. 0: all combinations of the grid.
        data_sha256: SHA-256 of each data file of the study, by URI.
        metric: Metric that selects the best trial.
        rows: Rows instead of grid and ranges.
        repeat: Number of seeds of each row or combination. 0: see `Search`.
    """
    search = _search(experiment, grid, ranges, random, metric, rows, repeat)
    varied = {name for row in search.rows for name in row.fields}
    trials = plan(with_embedded_circuit(experiment, varied=varied), search)
    files = sorted({trial.data for trial in trials if trial.is_file})
    if files != sorted(data_sha256):
        raise ConfigError(
            "data_sha256: must contain the SHA-256, as printed by sha256sum, of these data files: "
            f"{', '.join(files) or 'none'}. Given: {', '.join(sorted(data_sha256)) or 'none'}"
        )
    # A trial that cannot be trained fails here, and not after some of the trials.
    check_experiments(trials, STEP, logger.warning)
    return [trial.to_json() for trial in trials]


def _search(
    experiment: Mapping[str, Any],
    grid: Mapping[str, Any],
    ranges: Mapping[str, Any],
    random: int,
    metric: str,
    rows: Sequence[Mapping[str, Any]],
    repeat: int,
) -> Search:
    values = {"grid": with_circuits(grid), "range": ranges, "random": random, "metric": metric}
    search = search_from_mapping({**values, "rows": rows, "repeat": repeat})
    return dataclasses.replace(search, rows=with_embedded_circuits(experiment, search.rows))


def plan_tuning(
    experiment: Mapping[str, Any],
    grid: Mapping[str, Any],
    ranges: Mapping[str, Any],
    random: int,
    data_sha256: Mapping[str, str],
    metric: str = VAL_LOSS,
) -> str:
    """Validate a search whose trials share their data, and return the experiment of one trial as JSON.

    Args:
        experiment: Fields that all trials share.
        grid: Values by field.
        ranges: Numeric ranges by field.
        random: Number of trials.
        data_sha256: SHA-256 of the data file, by URI.
        metric: Metric that selects the best trial.
    """
    plan_study(experiment, grid, ranges, random, data_sha256, metric)
    search = search_from_mapping({"grid": with_circuits(grid), "range": ranges, "random": random})
    return shared_experiment(with_embedded_circuit(experiment), search).to_json()


logger = logging.getLogger("qcnn")


def select_best(
    trainings: Sequence[str],
    results: str,
    page: str,
    report: str = "",
    metric: str = VAL_LOSS,
    repeated: RepeatedRows | None = None,
    datasets: Sequence[str] = (),
) -> tuple[int, list[Trial | FailedTrial]]:
    """Write the table of all trials and return the index of the best trial, and the trials.

    A failed trial is a row of the table. If all trials failed, the study fails. Trials of repeated rows are evaluated
    on their test splits, and the best one is the first of the row with the best mean.

    Args:
        trainings: Training folder of each trial.
        results: Path of the table as CSV.
        page: Path of the table as HTML.
        report: Report of the best trial: a path relative to the page, or a URI, or empty if there is none.
        metric: Metric of the validation split that selects the best trial.
        repeated: Rows that the trials repeat, or None.
        datasets: Folder of the dataset of each trial. Only repeated rows need them.
    """
    metric = parse_metric(metric)
    trials = [read_trial(Path(training)) for training in trainings]
    if without := [number for number, trial in enumerate(trials) if is_without(trial, metric)]:
        what = "trials of regressions have no accuracy and are ranked by validation loss, after the others"
        logger.warning("metric %s: %s: %s", metric, what, ", ".join(map(str, without)))
    if repeated is None or all(isinstance(trial, FailedTrial) for trial in trials):
        header, rows = table(trials, metric)
        _write_tables({results: table_csv(header, rows), page: table_page(trials, report, metric)})
        _log_table(header, format_rows(rows))
        return best(trials, metric), trials
    with quiet_tracing():
        trials = _evaluated(trials, [*map(Path, trainings)], [*map(Path, datasets)])
    found = row_results(repeated, trials)
    row = best_row(found, metric, is_maximized=SELECTION_METRICS[metric].is_maximized)
    chosen = next(number for number in repeated.trials_of(row) if isinstance(trials[number], Trial))
    header, rows = table(trials, metric, chosen)
    _write_tables({results: table_csv(header, rows), page: repeated_page(trials, found, chosen, report, metric)})
    _log_table(*short_table(found))
    classical = baseline_table(found)
    if classical[1]:
        _log_table(*classical)
    for line in textwrap.wrap(legend(found), 110):
        logger.info("%s", line)
    return chosen, trials


def write_rows(repeated: RepeatedRows, trials: Sequence[Trial | FailedTrial], path: Path) -> None:
    """Write the table of repeated rows as CSV.

    Args:
        repeated: Rows that the trials repeat.
        trials: Evaluated trials.
        path: Path of the table.
    """
    _write_tables({str(path): table_csv(*rows_table(row_results(repeated, trials)))})


def _write_tables(texts: Mapping[str, str]) -> None:
    for path, text in texts.items():
        with new_file(Path(path)) as unfinished:
            unfinished.write_text(text, encoding="utf-8")


def _log_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for line in tabulate(rows, header, "simple", disable_numparse=True).splitlines():
        logger.info("%s", line)


def _evaluated(
    trials: Sequence[Trial | FailedTrial], trainings: Sequence[Path], datasets: Sequence[Path]
) -> list[Trial | FailedTrial]:
    """Return trials with the metrics of their test splits, which `qcnn run` of their experiments would print."""
    start_compiler()
    from qcnn.model.network import build_model
    from qcnn.results.evaluate import evaluate_checkpoint
    from qcnn.results.export import complete_checkpoint

    models: dict[str, Any] = {}
    fits: dict[object, Any] = {}

    def model_of(config: ExperimentConfig) -> Any:
        # Trials of a row follow each other and have the same model.
        key = program_key(config)
        if key not in models:
            models.clear()
            models[key] = build_model(config)
        return models[key]

    def evaluated(trial: Trial, training: Path, folder: Path) -> Trial:
        dataset, checkpoint = data.load(folder), complete_checkpoint(training)
        result = evaluate_checkpoint(checkpoint, dataset, model_of(checkpoint.config))
        metrics = result.metrics | metrics_of(fitted_baselines(result, dataset, checkpoint.config, fits))
        return dataclasses.replace(trial, evaluated=Evaluated(metrics, len(dataset.test), dataset.digest))

    return [
        evaluated(trial, training, folder) if isinstance(trial, Trial) else trial
        for trial, training, folder in zip(trials, trainings, datasets, strict=True)
    ]


def read_trial(training: Path) -> Trial | FailedTrial:
    """Read the result of a trial from its training folder.

    Raises:
        ArtifactError: If the folder has no checkpoint.
    """
    if failed := load_failure(training):
        return failed
    checkpoint = checkpoints.load_latest(training / checkpoints.FOLDER)
    if checkpoint is None:
        raise ArtifactError(f"training: the folder has no checkpoint. Given: {training}")
    config = checkpoint.config
    chosen = exported_epoch(checkpoint.line.progress, config.options.export_checkpoint)
    seconds = math.fsum(epoch.seconds for epoch in checkpoint.history)
    return Trial(config, checkpoint.epochs, chosen, checkpoint.fresh_mse, seconds)


def track_study(study: Path, model: Path, metrics: Mapping[str, float], uris: Mapping[str, str]) -> None:
    """Send the results of the trials to the runs of a local study, if the environment names a tracking server.

    Args:
        study: Folder of the study.
        model: Folder of the exported model.
        metrics: Metrics of the evaluation.
        uris: Paths of the artifacts by name.
    """
    if destination_in(os.environ) is not None:
        results = Results(metrics, uris, str(model), tracked_trials(study))
        track_results(os.environ, study_run(study), results, sent_later(study))


def track_trials(
    trainings: Sequence[str],
    trials: Sequence[Trial | FailedTrial],
    model: str,
    metrics: Mapping[str, float],
    uris: Mapping[str, str],
) -> None:
    """Make the runs of a pipeline's trials children of a new run with the results of the best one.

    Without a tracking server in the environment, nothing is sent.

    Args:
        trainings: Training folder of each trial.
        trials: Trials, with metrics if they are evaluated.
        model: Folder of the exported model.
        metrics: Metrics of the evaluation.
        uris: URIs of the artifacts by name.
    """
    if destination_in(os.environ) is None:
        return
    found: dict[Identity, Mapping[str, float]] = {}
    for training, trial in zip(trainings, trials, strict=True):
        # A trial that failed, or that another process tracked, has none.
        with contextlib.suppress(ArtifactError):
            evaluated = trial.evaluated if isinstance(trial, Trial) else None
            found[read_identity(Path(training))] = evaluated.metrics if evaluated else {}
    if found:
        identity = identity_of_study([*found])
        with tempfile.TemporaryDirectory(prefix="qcnn-") as folder:
            write_identity(Path(folder), identity)
            run = TrackedRun(f"qcnn-study-{identity.key[:8]}", Path(folder))
            results = Results(metrics, uris, model, {trial.key: each for trial, each in found.items()})
            track_results(os.environ, run, results, "the runs of the trials have no parent run")
