"""qcnn study --target local: one trial after the other, as Kubeflow's local runner knows no loops."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.errors import StepError
from cli.local.pipeline import execute, loaded_once
from cli.local.run import summary
from cli.options.experiment import Words, check_model, experiment_options
from cli.options.runs import runs_option
from cli.options.search import STUDY_HELP, SearchFlags, read_study, search_options
from trainer.config import ExperimentConfig
from trainer.startup import load_tensorflow
from trainer.study.failures import save_failure
from trainer.study.trials import FailedTrial

if TYPE_CHECKING:
    from kfp import dsl
    from kfp.dsl.base_component import BaseComponent

# What the last step takes of each trial: dataset and training.
_Made = tuple["dsl.Artifact", "dsl.Artifact"]


@click.command(help=STUDY_HELP)
@search_options
@runs_option
@experiment_options
def study(search: SearchFlags, runs: Path, words: Words) -> None:
    """Run the study here, one trial after the other."""
    folder, outputs = run_study(read_study(search, words).trials, runs)
    click.echo(summary(outputs, "--runs", str(folder)))


def run_study(trials: Sequence[ExperimentConfig], runs: Path) -> tuple[Path, dict[str, dsl.Artifact]]:
    """Run each trial, then pick and evaluate the best; return the study's folder and what it leaves.

    Every study makes a folder of its own under `runs`, with those of its trials in it. A trial that fails is a row of
    its table.

    Raises:
        StepError: no trial succeeded, or the best one could not be evaluated; the log says why.
    """

    def load() -> BaseComponent:
        from pipelines.study import trial

        return trial

    for trial in trials:
        check_model(trial)
    folder = runs / f"qcnn-study-{datetime.datetime.now():%Y-%m-%d-%H-%M-%S-%f}"
    made: list[_Made] = []
    with loaded_once() as server:
        for number, trial in enumerate(trials):
            click.echo(f"== trial {number}, {number + 1} of {len(trials)}")
            try:
                outputs = execute(load, {"experiment": trial.to_json()}, trial.model_dump(), folder, server)
                made.append((outputs["dataset"], outputs["training"]))
            except StepError as error:
                # Training leaves why it failed; this was another step, or one that was killed.
                click.echo(f"error: {error}", err=True)
                made.append(_failed(FailedTrial(trial, str(error)), folder.absolute() / f"failed-{number}"))
    click.echo("== select-best")
    try:
        return folder, _select_best(made, folder.absolute() / "select-best")
    except SystemExit:
        raise StepError(f"step select-best failed, see the lines above. Given: {folder}") from None


def _failed(trial: FailedTrial, folder: Path) -> _Made:
    """Leave why a trial failed where the last step finds it."""
    from kfp import dsl

    save_failure(trial, folder)
    return dsl.Dataset(name="dataset", uri=str(folder)), dsl.Artifact(name="training", uri=str(folder))


def _select_best(made: Sequence[_Made], folder: Path) -> dict[str, dsl.Artifact]:
    """Run the last step here: Kubeflow's local runner hands no lists of artifacts on."""
    from components.select_best.component import select_best
    from pipelines.study import StudyOutputs

    load_tensorflow()
    kinds = StudyOutputs.__annotations__
    outputs = {name: kinds[name](name=name, uri=str(folder / name)) for name in StudyOutputs._fields}
    select_best.python_func(
        datasets=[dataset for dataset, _ in made],
        trainings=[training for _, training in made],
        **outputs,
    )
    return outputs
