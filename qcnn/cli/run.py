"""qcnn run: the pipeline on the local machine."""

from __future__ import annotations

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
)
from qcnn.cli.options.settings import format_option, runs_option
from qcnn.cli.output import on_stderr, show, stdout_to_stderr
from qcnn.cli.step_hooks import preload_tensorflow, step_hooks, writable_folder
from qcnn.components.local_steps import run_experiment, run_in_subprocess
from qcnn.components.steps.tensorboard import command as tensorboard_command
from qcnn.errors import ConfigError
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping, merge
from qcnn.extras import check
from qcnn.planning.checks import LOCAL, check_experiments
from qcnn.results.local_run import RunFolders, of_run, read_metrics
from qcnn.run_names import timestamp
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
    "epoch_seconds": "seconds per epoch",
}
# Metrics that a repeated run must reproduce exactly.
_REPEATABLE = ("train_loss", "val_loss", "mse", "fresh_mse", "accuracy", "r2")


@click.command()
@runs_option
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Resume RUN from its last checkpoint.",
    shell_complete=complete_run,
)
@click.option(
    "--repeat",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Repeat RUN from its metadata and compare the results.",
    shell_complete=complete_run,
)
@format_option
@experiment_options
def run(runs: Path, resume: Path | None, repeat: Path | None, output_format: str, options: ExperimentOptions) -> None:
    """Run the pipeline locally: generate data, train, export, evaluate."""
    if sum(map(bool, (resume, repeat, options.given))) > 1:
        given = [name for name, value in (("--resume", resume), ("--repeat", repeat)) if value] + options.given
        raise ConfigError(
            f"run: must have only one of --resume, --repeat and the fields of an experiment. Given: {' '.join(given)}"
        )
    if resume:
        experiment = resumed_experiment(resume)
    elif repeat:
        # Read before the run, so that a missing file is reported at once.
        before = read_metadata(repeat, "evaluate", "metrics")
        experiment = experiment_of(repeat, "export-weights", "model")
    else:
        experiment = options.experiment()
    with stdout_to_stderr(output_format):
        folders = run_pipeline(experiment, runs)
    outputs, metrics = artifacts(folders), read_metrics(folders)
    show(output_format, to_json(metrics, outputs), summary(metrics, outputs, str(folders.run)))
    if repeat:
        click.echo(compare(before, metrics), err=output_format == "json")


def run_pipeline(experiment: ExperimentConfig, runs: Path) -> RunFolders:
    """Check an experiment, run all steps of the pipeline locally and return the folders of the run.

    Steps that need TensorFlow run in child processes. The experiment is checked while TensorFlow is loaded for them.

    Args:
        experiment: Experiment to run.
        runs: Folder in which the folder of the run is created.

    Raises:
        ArtifactError: If the folder cannot be written.
        QcnnError: If the experiment cannot run, see `check_experiments`.
        StepError: If a step fails; the log contains the reason.
    """
    check("run")
    with preload_tensorflow():
        (experiment,) = check_experiments([experiment], LOCAL, on_stderr)
        folders = of_run(writable_folder(runs) / f"qcnn-{timestamp()}")
        with step_hooks(experiment.model_dump(), folders.run) as hooks:
            run_experiment(experiment, folders, *hooks, call=run_in_subprocess, linked=True)
    return folders


def resumed_experiment(run: Path) -> ExperimentConfig:
    """Return the experiment of a run, set to resume from the checkpoints of the run if they exist."""
    from qcnn.model import checkpoints

    experiment, training = experiment_of(run), (run / "train" / "training").absolute()
    if not checkpoints.any_in(training / checkpoints.FOLDER):
        click.echo(f"{run} ended before its first checkpoint; training starts from scratch")
        return experiment
    return from_mapping(merge(experiment.model_dump(), {"continue_from": str(training)}))


def artifacts(folders: RunFolders) -> dict[str, Path]:
    """Return the paths of a run's artifacts by name."""
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


def to_json(metrics: Mapping[str, float], outputs: Mapping[str, Path]) -> dict[str, Any]:
    """Return the metrics and the paths of the artifacts as JSON values."""
    return {"metrics": dict(metrics), "artifacts": {name: str(path) for name, path in outputs.items()}}


def summary(metrics: Mapping[str, float], outputs: Mapping[str, Path], *logs: str) -> str:
    """Return the table of metrics and artifacts.

    Args:
        metrics: Metrics by name; metrics without a title are omitted.
        outputs: Paths of the artifacts by name.
        *logs: Arguments of qcnn tensorboard that select the run.
    """
    rows: list[tuple[str, str]] = [
        (title, f"{metrics[name]:.4f}") for name, title in _METRICS.items() if name in metrics
    ]
    rows += [(name, _relative(str(path))) for name, path in outputs.items()]
    program = _relative(str(Path(sys.executable).with_name("qcnn")))
    rows.append(("view with", tensorboard_command(*map(_relative, logs), program=program)))
    return tabulate(rows, tablefmt="plain", disable_numparse=True)


def compare(before: dict[str, float], after: dict[str, float]) -> str:
    """Return a line that reports equal metrics of a run and its repetition.

    Raises:
        StepError: If a metric differs.
    """
    # A run of an earlier release may lack some of them.
    known = [name for name in _REPEATABLE if name in before]
    differing = [f"{name} {before[name]!r}, now {after[name]!r}" for name in known if before[name] != after[name]]
    if differing:
        raise StepError(f"the metrics of the repeated run differ. Given: {'; '.join(differing)}")
    return f"the metrics of the repeated run are equal: {', '.join(known)}"


def _relative(path: str) -> str:
    """Return a path relative to the working directory if it is inside, or else unchanged."""
    return path.removeprefix(f"{Path.cwd()}/")
