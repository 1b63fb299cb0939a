"""qcnn study --target local: sequential trials on the local machine."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from qcnn.atomic_files import folder_lock
from qcnn.cli.options.experiment import ExperimentOptions, experiment_options
from qcnn.cli.options.search import STUDY_NOTES, SearchOptions, read_study, search_options
from qcnn.cli.options.settings import format_option, runs_option
from qcnn.cli.output import on_stderr, show, stdout_to_stderr
from qcnn.cli.run import summary, to_json
from qcnn.cli.step_hooks import preload_tensorflow, step_hooks
from qcnn.components.local_steps import BestTrial, run_in_subprocess, run_trial, select_best_trial
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.local.runner import ProcessPool
from qcnn.planning.checks import LOCAL, check_experiments
from qcnn.process.error_lines import one_line_errors
from qcnn.process.extras import check
from qcnn.process.signals import terminated_as_interrupt
from qcnn.results.local_run import RunFolders, of_trial, read_metrics
from qcnn.run_names import timestamp
from qcnn.studies.record import SELECT_STEP, finished_trials, has_succeeded, load_trials, read_table, save_trials
from qcnn.studies.trials import FailedTrial, save_failure
from qcnn.targets.errors import StepError

_HELP = f"""
Run the trials of a hyperparameter search locally, one at a time, and evaluate the best.
{STUDY_NOTES}"""


@click.command(help=_HELP)
@search_options
@runs_option
@click.option(
    "--resume", type=click.Path(path_type=Path), metavar="STUDY", help="Resume STUDY, skipping finished trials."
)
@format_option
@experiment_options
def study(
    search: SearchOptions, runs: Path, resume: Path | None, output_format: str, options: ExperimentOptions
) -> None:
    """Run a study locally, or resume it."""
    if resume and (search.given or options.given):
        given = " ".join(["--resume", *search.given, *options.given])
        raise ConfigError(f"study: must not have fields or a search space with --resume. Given: {given}")
    # Checked before a folder is created.
    check("run")
    with stdout_to_stderr(output_format):
        folder, selected = resume_study(resume) if resume else run_study(read_study(search, options).trials, runs)
    outputs, metrics = artifacts(selected), read_metrics(selected.folders)
    result = {"trials": read_table(selected.results), **to_json(metrics, outputs)}
    show(output_format, result, summary(metrics, outputs, "--runs", str(folder)))


def run_study(trials: Sequence[ExperimentConfig], runs: Path) -> tuple[Path, BestTrial]:
    """Run the trials of a new study, and select and evaluate the best.

    The study creates a folder in `runs`, which contains the folders of its trials. A failed trial is a row of the table
    of trials.

    Returns:
        The folder of the study, and the selected trial.

    Raises:
        QcnnError: If a trial cannot run, see `check_experiments`.
        StepError: If no trial succeeds, or the best trial cannot be evaluated; the log contains the reason.
    """
    with preload_tensorflow():
        trials = check_experiments(trials, LOCAL, on_stderr)
        folder = runs / f"qcnn-study-{timestamp()}"
        save_trials(trials, folder)
        with folder_lock("study", folder):
            return folder, _train_and_select(trials, {}, folder)


def resume_study(folder: Path) -> tuple[Path, BestTrial]:
    """Run the unfinished trials of a study in its folder, and select and evaluate the best.

    Returns:
        The folder of the study, and the selected trial.

    Raises:
        ArtifactError: If the folder is not a study, the study has succeeded, or another process runs it.
        StepError: If no trial succeeds, or the best trial cannot be evaluated; the log contains the reason.
    """
    trials = load_trials(folder)
    with preload_tensorflow(), folder_lock("study", folder):
        if has_succeeded(folder):
            raise ArtifactError(f"study: must be unfinished. Given: {folder}, which has succeeded")
        trials = check_experiments(trials, LOCAL, on_stderr)
        shutil.rmtree(folder / SELECT_STEP, ignore_errors=True)
        return folder, _train_and_select(trials, finished_trials(folder), folder)


def _train_and_select(
    trials: Sequence[ExperimentConfig], finished: Mapping[ExperimentConfig, Path], folder: Path
) -> BestTrial:
    """Train the trials that are not finished, and evaluate the best of all trials.

    The worker processes are reused for all trials, because they keep their compiled functions.

    Args:
        trials: Trials of the study.
        finished: Folders of the finished trials.
        folder: Folder of the study.
    """
    root, folders = folder.absolute(), list[RunFolders]()
    with terminated_as_interrupt():
        with contextlib.closing(ProcessPool(lives_on=True)) as pool:
            for number, trial in enumerate(trials):
                click.echo(f"== trial {number}, {number + 1} of {len(trials)}")
                if trial in finished:
                    click.echo("already trained")
                    folders.append(of_trial(finished[trial].absolute()))
                    continue
                current = of_trial(root / f"qcnn-trial-{timestamp()}")
                folders.append(current)
                try:
                    with step_hooks(trial.model_dump(), current.run) as hooks:
                        run_trial(trial, current, pool.run, *hooks)
                except StepError as error:
                    # A failed training run records its error itself; this records the error of another step.
                    click.echo(f"error: {error}", err=True)
                    save_failure(FailedTrial(trial, str(error)), current.training)
        click.echo(f"== {SELECT_STEP}")
        try:
            with one_line_errors():
                return select_best_trial(root, folders, call=run_in_subprocess)
        except SystemExit:
            raise StepError(f"step {SELECT_STEP} failed, see the lines above. Given: {folder}") from None


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
