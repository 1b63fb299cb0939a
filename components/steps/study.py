"""Steps of a study: plan the trials and select the best one."""

import contextlib
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from qcnn.atomic_files import new_file
from qcnn.circuits.formats.loading import with_circuits, with_embedded_circuit
from qcnn.errors import ArtifactError, ConfigError
from qcnn.model import checkpoints
from qcnn.model.history import exported_epoch
from qcnn.monitoring.validation_metrics import VAL_LOSS, parse_metric
from qcnn.planning.checks import STEP, check_experiments
from qcnn.studies.record import format_rows, table, table_csv, table_page
from qcnn.studies.trials import (
    FailedTrial,
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
from qcnn.tracking.identity import identity_of_study, read_identity, write_identity
from qcnn.tracking.tracked_run import Results, TrackedRun, study_run


def plan_study(
    experiment: Mapping[str, Any],
    grid: Mapping[str, Any],
    ranges: Mapping[str, Any],
    random: int,
    data_sha256: Mapping[str, str],
    metric: str = VAL_LOSS,
) -> list[str]:
    """Validate a study and return the experiment of each trial as JSON.

    Args:
        experiment: Fields that all trials share.
        grid: Values by field.
        ranges: Numeric ranges by field.
        random: Number of random trials. 0: all combinations of the grid.
        data_sha256: SHA-256 of each data file of the study, by URI.
        metric: Metric that selects the best trial.
    """
    search = search_from_mapping({"grid": with_circuits(grid), "range": ranges, "random": random, "metric": metric})
    trials = plan(with_embedded_circuit(experiment), search)
    files = sorted({trial.data for trial in trials if trial.is_file})
    if files != sorted(data_sha256):
        raise ConfigError(
            "data_sha256: must contain the SHA-256, as printed by sha256sum, of these data files: "
            f"{', '.join(files) or 'none'}. Given: {', '.join(sorted(data_sha256)) or 'none'}"
        )
    # A trial that cannot be trained fails here, and not after some of the trials.
    check_experiments(trials, STEP, logger.warning)
    return [trial.to_json() for trial in trials]


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


def select_best(trainings: Sequence[str], results: str, page: str, report: str = "", metric: str = VAL_LOSS) -> int:
    """Write the table of all trials and return the index of the best trial.

    A failed trial is a row of the table. If all trials failed, the study fails.

    Args:
        trainings: Training folder of each trial.
        results: Path of the table as CSV.
        page: Path of the table as HTML.
        report: Report of the best trial: a path relative to the page, or a URI, or empty if there is none.
        metric: Metric of the validation split that selects the best trial.
    """
    metric = parse_metric(metric)
    trials = [read_trial(Path(training)) for training in trainings]
    if without := [number for number, trial in enumerate(trials) if is_without(trial, metric)]:
        what = "trials of regressions have no accuracy and are ranked by validation loss, after the others"
        logger.warning("metric %s: %s: %s", metric, what, ", ".join(map(str, without)))
    header, rows = table(trials, metric)
    for path, text in ((Path(results), table_csv(header, rows)), (Path(page), table_page(trials, report, metric))):
        with new_file(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    for line in tabulate(format_rows(rows), header, "simple", disable_numparse=True).splitlines():
        logger.info("%s", line)
    return best(trials, metric)


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
    return Trial(config, checkpoint.epochs, chosen, checkpoint.fresh_mse)


def track_study(study: Path, model: Path, metrics: Mapping[str, float], uris: Mapping[str, str]) -> None:
    """Send the results of the best trial to the run of a local study, if the environment names a tracking server.

    Args:
        study: Folder of the study.
        model: Folder of the exported model.
        metrics: Metrics of the evaluation.
        uris: Paths of the artifacts by name.
    """
    if destination_in(os.environ) is not None:
        track_results(os.environ, study_run(study), Results(metrics, uris, str(model)), sent_later(study))


def track_trials(trainings: Sequence[str], model: str, metrics: Mapping[str, float], uris: Mapping[str, str]) -> None:
    """Make the runs of a pipeline's trials children of a new run with the results of the best one.

    Without a tracking server in the environment, nothing is sent.

    Args:
        trainings: Training folder of each trial.
        model: Folder of the exported model.
        metrics: Metrics of the evaluation.
        uris: URIs of the artifacts by name.
    """
    if destination_in(os.environ) is None:
        return
    trials = []
    for training in trainings:
        # A trial that failed, or that another process tracked, has none.
        with contextlib.suppress(ArtifactError):
            trials.append(read_identity(Path(training)))
    if trials:
        identity, keys = identity_of_study(trials), [trial.key for trial in trials]
        with tempfile.TemporaryDirectory(prefix="qcnn-") as folder:
            write_identity(Path(folder), identity)
            run = TrackedRun(f"qcnn-study-{identity.key[:8]}", Path(folder))
            advice = "the runs of the trials have no parent run"
            track_results(os.environ, run, Results(metrics, uris, model, keys), advice)
