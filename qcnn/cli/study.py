"""qcnn study --target local: sequential trials on the local machine."""

from __future__ import annotations

from pathlib import Path

import click

from qcnn.cli.options.experiment import ExperimentOptions, experiment_options
from qcnn.cli.options.search import STUDY_NOTES, SearchOptions, read_study, search_options
from qcnn.cli.options.settings import format_option, runs_option, tracking_option
from qcnn.cli.output import show, stdout_to_stderr
from qcnn.cli.run import summary, to_json
from qcnn.cli.terminal import terminal
from qcnn.components.local_steps import BestTrial
from qcnn.errors import ArtifactError, ConfigError
from qcnn.results.local_run import read_metrics
from qcnn.run_names import timestamp
from qcnn.studies.record import has_succeeded, load_trials, read_table, save_trials
from qcnn.studies.trials import StudyPlan
from qcnn.targets.local.runs import checked, run_study

_HELP = f"""
Run the trials of a hyperparameter search locally, one at a time, and evaluate the best.
{STUDY_NOTES}"""


@click.command(help=_HELP)
@search_options
@runs_option
@click.option(
    "--resume", type=click.Path(path_type=Path), metavar="STUDY", help="Resume STUDY, skipping finished trials."
)
@tracking_option
@format_option
@experiment_options
def study(
    search: SearchOptions, runs: Path, resume: Path | None, output_format: str, options: ExperimentOptions
) -> None:
    """Run a study locally, or resume it."""
    if resume and (search.given or options.given):
        given = " ".join(["--resume", *search.given, *options.given])
        raise ConfigError(f"study: must not have fields or a search space with --resume. Given: {given}")
    with stdout_to_stderr(output_format):
        folder, selected = resume_study(resume) if resume else new_study(read_study(search, options), runs)
    outputs, metrics = artifacts(selected), read_metrics(selected.folders)
    result = {"trials": read_table(selected.results), **to_json(metrics, outputs)}
    show(output_format, result, summary(metrics, outputs, "--runs", str(folder)))


def new_study(study: StudyPlan, runs: Path) -> tuple[Path, BestTrial]:
    """Run the trials of a new study in a folder in `runs`, and select and evaluate the best.

    Returns:
        The folder of the study, and the best trial.

    Raises:
        QcnnError: If a trial cannot run, see `check_experiments`.
        StepError: If no trial succeeds, or the best trial cannot be evaluated; the log contains the reason.
    """
    folder = runs / f"qcnn-study-{timestamp()}"
    with terminal(folder) as observer:
        trials = checked(study.trials, observer)
        save_trials(trials, folder, study.metric)
        return folder, run_study(trials, folder, observer)


def resume_study(folder: Path) -> tuple[Path, BestTrial]:
    """Run the unfinished trials of a study in its folder, and select and evaluate the best.

    Returns:
        The folder of the study, and the best trial.

    Raises:
        ArtifactError: If the folder is not a study, the study has succeeded, or another process runs it.
        StepError: If no trial succeeds, or the best trial cannot be evaluated; the log contains the reason.
    """
    trials = load_trials(folder)
    if has_succeeded(folder):
        raise ArtifactError(f"study: must be unfinished. Given: {folder}, which has succeeded")
    with terminal(folder) as observer:
        return folder, run_study(checked(trials, observer), folder, observer)


def artifacts(selected: BestTrial) -> dict[str, Path]:
    """Return the paths of a study's artifacts by name."""
    return {
        "results": selected.results,
        "table": selected.table,
        "model": selected.folders.exported,
        "metrics": selected.folders.metrics,
        "predictions": selected.folders.predictions,
        "report": selected.folders.report,
    }
