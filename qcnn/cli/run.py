"""qcnn run: the pipeline on this machine."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from qcnn.cli.options.experiment import (
    ExperimentOptions,
    complete_run,
    experiment_options,
    prepare_experiments,
    unwarned,
)
from qcnn.cli.options.settings import form_option, runs_option
from qcnn.cli.output import show, stdout_to_stderr
from qcnn.cli.shown_run import preload_tensorflow, shown_run, writable_folder
from qcnn.components.local_steps import apart, run_experiment
from qcnn.components.steps.tensorboard import command as tensorboard_command
from qcnn.errors import ConfigError
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping, merge
from qcnn.extras import check
from qcnn.results.local_run import RunFolders, of_run, read_metrics
from qcnn.targets.errors import StepError
from qcnn.targets.local.target import read_experiment as experiment_of
from qcnn.targets.local.target import read_metadata

_METRICS = {
    "train_loss": "train loss",
    "val_loss": "validation loss",
    "mse": "test MSE",
    "fresh_mse": "fresh MSE",
    "accuracy": "sign accuracy",
    "r2": "test R2",
    "epoch_seconds": "seconds an epoch",
}
# Metrics that a repeated run must reproduce to the last bit.
_REPEATABLE = ("train_loss", "val_loss", "mse", "fresh_mse", "accuracy", "r2")


@click.command()
@runs_option
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Continue the training of this run.",
    shell_complete=complete_run,
)
@click.option(
    "--repeat",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Run this run again and compare.",
    shell_complete=complete_run,
)
@form_option
@experiment_options
def run(runs: Path, resume: Path | None, repeat: Path | None, form: str, words: ExperimentOptions) -> None:
    """Run the whole pipeline on this machine: data, training, export, evaluation, TensorBoard."""
    if sum(map(bool, (resume, repeat, words.given))) > 1:
        given = [name for name, value in (("--resume", resume), ("--repeat", repeat)) if value] + words.given
        raise ConfigError(
            f"run: --resume, --repeat and the experiment's words exclude each other. Given: {' '.join(given)}"
        )
    if resume:
        experiment = continued(resume)
    elif repeat:
        # Read before anything runs: the metrics to compare with.
        before = read_metadata(repeat, "evaluate", "metrics")
        experiment = experiment_of(repeat, "export-weights", "model")
    else:
        experiment = words.experiment()
    (experiment,) = prepare_experiments([experiment], warn=unwarned)
    with stdout_to_stderr(form):
        folders = run_pipeline(experiment, runs)
    outputs, metrics = artifacts(folders), read_metrics(folders)
    show(form, described(metrics, outputs), summary(metrics, outputs, str(folders.run)))
    if repeat:
        click.echo(compare(before, metrics), err=form == "json")


def run_pipeline(experiment: ExperimentConfig, runs: Path) -> RunFolders:
    """Run all steps of the pipeline here, those that need TensorFlow as processes; return what holds what they leave.

    Raises:
        ArtifactError: the folder cannot be written.
        StepError: a step failed; the log says why.
    """
    check("run")
    folders = of_run(writable_folder(runs) / f"qcnn-{datetime.datetime.now():%Y-%m-%d-%H-%M-%S-%f}")
    with preload_tensorflow(), shown_run(experiment.model_dump(), folders.run) as given:
        run_experiment(experiment, folders, *given, call=apart, linked=True)
    return folders


def continued(run: Path) -> ExperimentConfig:
    """Return the experiment of a run, to be continued from that run's checkpoints if it has any yet."""
    from qcnn.model import checkpoints

    experiment, training = experiment_of(run), (run / "train" / "training").absolute()
    if not checkpoints.any_in(training / checkpoints.FOLDER):
        click.echo(f"{run} was ended before its first checkpoint: training begins anew")
        return experiment
    return from_mapping(merge(experiment.model_dump(), {"continue_from": str(training)}))


def artifacts(folders: RunFolders) -> dict[str, Path]:
    """Return where the artifacts of a run are, by name."""
    return {
        "dataset": folders.dataset,
        "training": folders.training,
        "logs": folders.logs,
        "model": folders.exported,
        "predictions": folders.predictions,
        "metrics": folders.metrics,
        "confusion": folders.confusion,
        "report": folders.report,
        "summary": folders.summary,
        "tensorboard": folders.link,
    }


def described(metrics: Mapping[str, float], outputs: Mapping[str, Path]) -> dict[str, Any]:
    """Return all metrics, and where the artifacts are, for other programs."""
    return {"metrics": dict(metrics), "artifacts": {name: str(path) for name, path in outputs.items()}}


def summary(metrics: Mapping[str, float], outputs: Mapping[str, Path], *logs: str) -> str:
    """Return the table of metrics and artifacts; `logs` are the arguments of qcnn tensorboard for this run."""
    rows: list[tuple[str, str]] = [
        (title, f"{metrics[name]:.4f}") for name, title in _METRICS.items() if name in metrics
    ]
    rows += [(name, _shown(str(path))) for name, path in outputs.items()]
    program = _shown(str(Path(sys.executable).with_name("qcnn")))
    rows.append(("look at it with", tensorboard_command(*map(_shown, logs), program=program)))
    return tabulate(rows, tablefmt="plain", disable_numparse=True)


def compare(before: dict[str, float], after: dict[str, float]) -> str:
    """Return a line that says that a repeated run gave the same numbers.

    Raises:
        StepError: it did not; one line with what differs.
    """
    # A run of an older release may not have them all.
    known = [name for name in _REPEATABLE if name in before]
    differing = [f"{name} {before[name]!r}, now {after[name]!r}" for name in known if before[name] != after[name]]
    if differing:
        raise StepError(f"the repeated run gave other numbers. Given: {'; '.join(differing)}")
    return f"the repeated run gave the same numbers: {', '.join(known)}"


def _shown(path: str) -> str:
    """Return a path relative to where the user is, if it lies there."""
    return path.removeprefix(f"{Path.cwd()}/")
