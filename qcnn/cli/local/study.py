"""qcnn study --target local: one trial after the other, as Kubeflow's local runner knows no loops."""

from __future__ import annotations

import contextlib
import datetime
import functools
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qcnn.cli.local.run import described, summary
from qcnn.cli.local.runner import execute, loaded_once
from qcnn.cli.local.study_record import TRAINING, finished_trials, load_trials, save_trials
from qcnn.cli.options.experiment import Words, experiment_options, prepared, unwarned
from qcnn.cli.options.form import alone_on_stdout, form_option, show
from qcnn.cli.options.search import STUDY_HELP, SearchFlags, read_study, search_options
from qcnn.cli.options.settings import runs_option
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment import ExperimentConfig
from qcnn.extras import check
from qcnn.jobs.local.runner import Crew
from qcnn.startup import load_tensorflow
from qcnn.studies.table import read_table
from qcnn.studies.trials import FailedTrial, save_failure
from qcnn.targets.errors import StepError

if TYPE_CHECKING:
    from kfp import dsl
    from kfp.dsl.base_component import BaseComponent

# The last step, and the folder of what it leaves.
_SELECTED = "select-best"
# What the last step takes of each trial: dataset and training.
_Made = tuple["dsl.Artifact", "dsl.Artifact"]


@click.command(help=STUDY_HELP)
@search_options
@runs_option
@click.option("--resume", type=click.Path(path_type=Path), metavar="STUDY", help="Train what is left of this study.")
@form_option
@experiment_options
def study(search: SearchFlags, runs: Path, resume: Path | None, form: str, words: Words) -> None:
    """Run the study here, one trial after the other."""
    if resume and (search.given or words.given):
        given = " ".join(["--resume", *search.given, *words.given])
        raise ConfigError(f"study: --resume takes the words of the study, and no others. Given: {given}")
    # Before a folder is made.
    check("run")
    with alone_on_stdout(form):
        folder, outputs = resumed(resume) if resume else run_study(read_study(search, words).trials, runs)
    found = {"trials": read_table(Path(outputs["results"].path)), **described(outputs)}
    show(form, found, summary(outputs, "--runs", str(folder)))


def run_study(trials: Sequence[ExperimentConfig], runs: Path) -> tuple[Path, dict[str, dsl.Artifact]]:
    """Run each trial, then pick and evaluate the best; return the study's folder and what it leaves.

    Every study makes a folder of its own under `runs`, with those of its trials in it. A trial that fails is a row of
    its table.

    Raises:
        StepError: no trial succeeded, or the best one could not be evaluated; the log says why.
    """
    trials = prepared(trials, warn=unwarned)
    folder = runs / f"qcnn-study-{datetime.datetime.now():%Y-%m-%d-%H-%M-%S-%f}"
    save_trials(trials, folder)
    return folder, _train_and_select(trials, {}, folder)


def resumed(folder: Path) -> tuple[Path, dict[str, dsl.Artifact]]:
    """Run what is left of a study that was ended, in its folder; return that and what it leaves.

    Raises:
        ArtifactError: it is no study, or one that has ended well.
        StepError: as `run_study` does.
    """
    trials = load_trials(folder)
    if (folder / _SELECTED / "metrics").exists():
        raise ArtifactError(f"study: has ended well, nothing is left to do. Given: {folder}")
    trials = prepared(trials, warn=unwarned)
    shutil.rmtree(folder / _SELECTED, ignore_errors=True)
    return folder, _train_and_select(trials, finished_trials(folder), folder)


def _train_and_select(
    trials: Sequence[ExperimentConfig], finished: Mapping[ExperimentConfig, Path], folder: Path
) -> dict[str, dsl.Artifact]:
    """Train the trials of a study but for those that have `finished`, in these folders, and evaluate the best of all.

    Its workers live on from one trial to the next, with what they have compiled.
    """

    def load() -> BaseComponent:
        from qcnn.pipelines.study import trial

        return trial

    made: list[_Made] = []
    with loaded_once() as server, contextlib.closing(Crew(lives_on=True)) as crew:
        for number, trial in enumerate(trials):
            click.echo(f"== trial {number}, {number + 1} of {len(trials)}")
            if trial in finished:
                click.echo("has been trained before")
                made.append(_made(finished[trial]))
                continue
            words = {"experiment": trial.to_json()}
            try:
                outputs = execute(load, words, trial.model_dump(), folder, server, _steps_here(crew))
                made.append((outputs["dataset"], outputs["training"]))
            except StepError as error:
                # Training leaves why it failed; this was another step, or one that was killed.
                click.echo(f"error: {error}", err=True)
                made.append(_failed(FailedTrial(trial, str(error)), folder.absolute() / f"failed-{number}"))
    click.echo(f"== {_SELECTED}")
    try:
        return _select_best(made, folder.absolute() / _SELECTED)
    except SystemExit:
        raise StepError(f"step {_SELECTED} failed, see the lines above. Given: {folder}") from None


def _steps_here(crew: Crew) -> dict[str, Callable[..., Any]]:
    """Return the steps of a trial as functions of this process, by their names; a process each would take longer."""
    from qcnn.components.definitions.pipeline import trial_data
    from qcnn.components.definitions.train_local import train
    from qcnn.components.steps.train_local import train as run

    @functools.wraps(train.python_func)
    def train_here(
        experiment: str, dataset: dsl.Dataset, training: dsl.Artifact, logs: dsl.Artifact, trial: bool = False
    ) -> None:
        places = dataset.path, training.path, logs.path
        training.metadata = logs.metadata = run(experiment, *places, trial=trial, run=crew.run)

    return {"train": train_here, "trial-data": trial_data.python_func}


def _made(run: Path) -> _Made:
    """Return what a trial left that has been trained before."""
    from kfp import dsl

    dataset, training = (run.absolute() / place for place in (Path("trial-data", "dataset"), TRAINING))
    return dsl.Dataset(name="dataset", uri=str(dataset)), dsl.Artifact(name="training", uri=str(training))


def _failed(trial: FailedTrial, folder: Path) -> _Made:
    """Leave why a trial failed where the last step finds it."""
    from kfp import dsl

    save_failure(trial, folder)
    return dsl.Dataset(name="dataset", uri=str(folder)), dsl.Artifact(name="training", uri=str(folder))


def _select_best(made: Sequence[_Made], folder: Path) -> dict[str, dsl.Artifact]:
    """Run the last step here: Kubeflow's local runner hands no lists of artifacts on."""
    from qcnn.components.definitions.study import select_best
    from qcnn.pipelines.study import StudyOutputs

    load_tensorflow()
    kinds = StudyOutputs.__annotations__
    outputs = {name: kinds[name](name=name, uri=str(folder / name)) for name in StudyOutputs._fields}
    select_best.python_func(
        datasets=[dataset for dataset, _ in made],
        trainings=[training for _, training in made],
        **outputs,
    )
    return outputs
