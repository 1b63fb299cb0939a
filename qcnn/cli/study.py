"""qcnn study --target local: one trial after the other."""

from __future__ import annotations

import contextlib
import datetime
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from qcnn.cli.options.experiment import ExperimentOptions, experiment_options, prepare_experiments, unwarned
from qcnn.cli.options.search import STUDY_HELP, SearchOptions, read_study, search_options
from qcnn.cli.options.settings import form_option, runs_option
from qcnn.cli.output import show, stdout_to_stderr
from qcnn.cli.run import described, summary
from qcnn.cli.shown_run import preload_tensorflow, shown_run
from qcnn.components.local_steps import SELECTED, Selected, apart, run_trial, select
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment import ExperimentConfig
from qcnn.extras import check
from qcnn.jobs.local.runner import ProcessPool
from qcnn.results.local_run import RunFolders, of_trial, read_metrics
from qcnn.startup import one_line_errors, terminated_as_interrupt
from qcnn.studies.record import finished_trials, load_trials, read_table, save_trials
from qcnn.studies.trials import FailedTrial, save_failure
from qcnn.targets.errors import StepError


@click.command(help=STUDY_HELP)
@search_options
@runs_option
@click.option("--resume", type=click.Path(path_type=Path), metavar="STUDY", help="Train what is left of this study.")
@form_option
@experiment_options
def study(search: SearchOptions, runs: Path, resume: Path | None, form: str, words: ExperimentOptions) -> None:
    """Run the study here, one trial after the other."""
    if resume and (search.given or words.given):
        given = " ".join(["--resume", *search.given, *words.given])
        raise ConfigError(f"study: --resume takes the words of the study, and no others. Given: {given}")
    # Before a folder is made.
    check("run")
    with stdout_to_stderr(form):
        folder, selected = resumed(resume) if resume else run_study(read_study(search, words).trials, runs)
    outputs, metrics = artifacts(selected), read_metrics(selected.folders)
    found = {"trials": read_table(selected.results), **described(metrics, outputs)}
    show(form, found, summary(metrics, outputs, "--runs", str(folder)))


def run_study(trials: Sequence[ExperimentConfig], runs: Path) -> tuple[Path, Selected]:
    """Run each trial, then pick and evaluate the best; return the study's folder and what it leaves.

    Every study makes a folder of its own under `runs`, with those of its trials in it. A trial that fails is a row of
    its table.

    Raises:
        StepError: no trial succeeded, or the best one could not be evaluated; the log says why.
    """
    trials = prepare_experiments(trials, warn=unwarned)
    folder = runs / f"qcnn-study-{datetime.datetime.now():%Y-%m-%d-%H-%M-%S-%f}"
    save_trials(trials, folder)
    return folder, _train_and_select(trials, {}, folder)


def resumed(folder: Path) -> tuple[Path, Selected]:
    """Run what is left of a study that was ended, in its folder; return that and what it leaves.

    Raises:
        ArtifactError: it is no study, or one that has ended well.
        StepError: as `run_study` does.
    """
    trials = load_trials(folder)
    if (folder / SELECTED / "metrics").exists():
        raise ArtifactError(f"study: has ended well, nothing is left to do. Given: {folder}")
    trials = prepare_experiments(trials, warn=unwarned)
    shutil.rmtree(folder / SELECTED, ignore_errors=True)
    return folder, _train_and_select(trials, finished_trials(folder), folder)


def _train_and_select(
    trials: Sequence[ExperimentConfig], finished: Mapping[ExperimentConfig, Path], folder: Path
) -> Selected:
    """Train the trials of a study but for those that have `finished`, in these folders, and evaluate the best of all.

    Its workers live on from one trial to the next, with what they have compiled.
    """
    root, places = folder.absolute(), list[RunFolders]()
    with preload_tensorflow(), terminated_as_interrupt():
        with contextlib.closing(ProcessPool(lives_on=True)) as crew:
            for number, trial in enumerate(trials):
                click.echo(f"== trial {number}, {number + 1} of {len(trials)}")
                if trial in finished:
                    click.echo("has been trained before")
                    places.append(of_trial(finished[trial].absolute()))
                    continue
                place = of_trial(root / f"qcnn-trial-{datetime.datetime.now():%Y-%m-%d-%H-%M-%S-%f}")
                places.append(place)
                try:
                    with shown_run(trial.model_dump(), place.run) as given:
                        run_trial(trial, place, crew.run, *given)
                except StepError as error:
                    # Training leaves why it failed; this was another step, or output that could not be written.
                    click.echo(f"error: {error}", err=True)
                    save_failure(FailedTrial(trial, str(error)), place.training)
        click.echo(f"== {SELECTED}")
        try:
            with one_line_errors():
                return select(root, places, call=apart)
        except SystemExit:
            raise StepError(f"step {SELECTED} failed, see the lines above. Given: {folder}") from None


def artifacts(selected: Selected) -> dict[str, Path]:
    """Return where the artifacts of a study are, by name."""
    return {
        "results": selected.results,
        "table": selected.table,
        "model": selected.folders.exported,
        "metrics": selected.folders.metrics,
        "predictions": selected.folders.predictions,
        "report": selected.folders.report,
    }
