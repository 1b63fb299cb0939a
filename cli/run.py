"""qcnn run: the pipeline on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tabulate import tabulate

from cli.errors import StepError
from cli.experiment import experiment_options, read_experiment
from cli.log import RunLog
from components.tensorboard.step import command as tensorboard_command
from trainer.config import ExperimentConfig
from trainer.errors import ArtifactError, ConfigError

if TYPE_CHECKING:
    from kfp import dsl

_FAILED_TASK = re.compile(r"Inner task failed: '(.+?)'")
_METRICS = {
    "train_loss": "train loss",
    "val_loss": "validation loss",
    "mse": "test MSE",
    "accuracy": "sign accuracy",
    "epoch_seconds": "seconds an epoch",
}


@click.command(context_settings={"token_normalize_func": lambda token: token.replace("_", "-")})
@experiment_options
@click.option(
    "--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Folder of runs."
)
def run(config: str | None, runs: Path, **flags: str | None) -> None:
    """Run the whole pipeline on this machine: data, training, export, evaluation, TensorBoard."""
    experiment = read_experiment(config, flags)
    root = _prepare(runs)
    with RunLog(root, sys.stdout) as log:
        outputs = run_pipeline(experiment, root, log)
    click.echo(summary(outputs))


def run_pipeline(experiment: ExperimentConfig, root: Path, log: RunLog) -> dict[str, dsl.Artifact]:
    """Execute the pipeline that is compiled for Kubeflow, each step a process; return its output artifacts.

    Every run makes a folder of its own under `root`.

    Raises:
        StepError: a step failed; the log says why.
    """
    with warnings.catch_warnings():
        # Kubeflow's SDK warns of its own imports, and of images that are not named python.
        warnings.simplefilter("ignore")
        from kfp import local

        from pipelines.qcnn import Outputs, qcnn

        local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(root))
        try:
            with contextlib.redirect_stdout(log):
                outputs = qcnn(**experiment.model_dump()).outputs
        except RuntimeError as error:
            if not (failed := _FAILED_TASK.search(click.unstyle(str(error)))):
                raise
            raise StepError(f"step {failed[1]} failed, see the lines above. Given: {log.folder}") from None
    return {name: outputs[name] for name in Outputs._fields}


def summary(outputs: dict[str, dsl.Artifact]) -> str:
    """Return the table of what came out and where it lies."""
    metrics = outputs["metrics"].metadata
    rows: list[tuple[str, str]] = [(title, f"{metrics[name]:.4f}") for name, title in _METRICS.items()]
    rows += [(name, _shown(artifact.path)) for name, artifact in outputs.items()]
    program = _shown(str(Path(sys.executable).with_name("tensorboard")))
    rows.append(("look at it with", tensorboard_command(_shown(outputs["logs"].path), program)))
    return tabulate(rows, tablefmt="plain", disable_numparse=True)


def _prepare(runs: Path) -> Path:
    """Create the folder of runs and check that it can be written before any work is done."""
    root = runs.absolute()
    if "python3" in str(root):
        raise ConfigError(
            "runs: the path must not contain 'python3', which Kubeflow's local runner replaces by the interpreter. "
            f"Given: {root}"
        )
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        raise ArtifactError(f"runs: the folder cannot be written ({error.strerror}). Given: {runs}") from None
    return root


def _shown(path: str) -> str:
    """Return a path relative to where the user is, if it lies there."""
    here = f"{Path.cwd()}{os.sep}"
    return path.removeprefix(here)
