"""A study on this machine: one trial after the other, as Kubeflow's local runner knows no loops."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.experiment import check_model
from cli.local import execute
from trainer.config import ExperimentConfig
from trainer.startup import load_tensorflow

if TYPE_CHECKING:
    from kfp import dsl
    from kfp.dsl.base_component import BaseComponent


def run_study(trials: Sequence[ExperimentConfig], runs: Path) -> tuple[Path, dict[str, dsl.Artifact]]:
    """Run each trial, then pick and evaluate the best; return the study's folder and what it leaves.

    Every study makes a folder of its own under `runs`, with those of its trials in it.

    Raises:
        StepError: a trial failed, and with it the study; the log says why.
    """

    def load() -> BaseComponent:
        from pipelines.study import trial

        return trial

    for trial in trials:
        check_model(trial)
    folder = runs / f"qcnn-study-{datetime.datetime.now():%Y-%m-%d-%H-%M-%S-%f}"
    made = []
    for number, trial in enumerate(trials):
        click.echo(f"== trial {number}, {number + 1} of {len(trials)}")
        made.append(execute(load, {"experiment": trial.to_json()}, folder))
    click.echo("== select-best")
    return folder, _select_best(made, folder.absolute() / "select-best")


def _select_best(made: Sequence[dict[str, dsl.Artifact]], folder: Path) -> dict[str, dsl.Artifact]:
    """Run the last step here: Kubeflow's local runner hands no lists of artifacts on."""
    from components.select_best.component import select_best
    from pipelines.study import StudyOutputs

    load_tensorflow()
    kinds = StudyOutputs.__annotations__
    outputs = {name: kinds[name](name=name, uri=str(folder / name)) for name in StudyOutputs._fields}
    select_best.python_func(
        datasets=[outputs["dataset"] for outputs in made],
        trainings=[outputs["training"] for outputs in made],
        **outputs,
    )
    return outputs
