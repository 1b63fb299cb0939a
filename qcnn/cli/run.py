"""qcnn run: the pipeline on the local machine."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from tabulate import tabulate

from qcnn.cli.options.experiment import (
    ExperimentOptions,
    complete_run,
    experiment_options,
)
from qcnn.cli.options.registry import registry_option
from qcnn.cli.options.settings import format_option, runs_option, tracking_option
from qcnn.cli.output import show, stdout_to_stderr
from qcnn.cli.terminal import terminal, writable_folder
from qcnn.components.steps.register import RegistrationTarget
from qcnn.components.steps.tensorboard import command as tensorboard_command
from qcnn.errors import ArtifactError, ConfigError, format_value
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping, merge
from qcnn.experiment.saved import from_saved
from qcnn.planning.checks import LOCAL
from qcnn.results.local_run import FILE, RunFolders, load_metrics, of_run, of_trial, read_metrics, read_record
from qcnn.results.metric_titles import baseline_texts, titled_metrics
from qcnn.run_names import timestamp
from qcnn.targets.errors import StepError
from qcnn.targets.local.runs import checked, run_experiment
from qcnn.targets.local.target import find_runs, read_metadata
from qcnn.targets.local.target import read_experiment as experiment_of

_METRICS = {
    "train_loss": "train loss",
    "val_loss": "validation loss",
    "mse": "test MSE",
    "fresh_mse": "fresh MSE",
    "loss": "test loss",
    "accuracy": "sign accuracy",
    "balanced_accuracy": "balanced accuracy",
    "brier_score": "Brier score",
    "roc_auc": "ROC AUC",
    "r2": "test R2",
    "epoch_seconds": "seconds per epoch",
}
# Metrics that a repeated run must reproduce exactly.
_REPEATABLE = ("train_loss", "val_loss", "mse", "fresh_mse", "loss", "accuracy", "r2")


@click.command()
@runs_option
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Resume RUN in its folder from its last checkpoint. With --runs, resume a copy there.",
    shell_complete=complete_run,
)
@click.option(
    "--repeat",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Repeat RUN from its metadata and compare the results.",
    shell_complete=complete_run,
)
@click.option(
    "--register",
    "registered_name",
    metavar="NAME",
    help="Register the model by this name as the last step, and promote it if it is better.",
)
@registry_option
@tracking_option
@format_option
@experiment_options
def run(
    runs: Path,
    resume: Path | None,
    repeat: Path | None,
    registered_name: str | None,
    registry: str | None,
    output_format: str,
    options: ExperimentOptions,
) -> None:
    """Run the pipeline locally: generate data, train, export, evaluate."""
    fields = [flag for flag in options.given if flag != "--epochs" or not resume]
    if sum(map(bool, (resume, repeat, fields))) > 1:
        given = [name for name, value in (("--resume", resume), ("--repeat", repeat)) if value] + options.given
        raise ConfigError(
            "run: must have only one of --resume (also with --epochs), --repeat and the fields of an experiment. "
            f"Given: {' '.join(given)}"
        )
    if registry is not None and registered_name is None:
        raise ConfigError(f"register: must be given together with --registry. Given: only {format_value(registry)}")
    registration = None if registered_name is None else RegistrationTarget(registered_name, registry)
    if resume:
        has_runs = click.get_current_context().get_parameter_source("runs") != ParameterSource.DEFAULT
        unfinished = read_unfinished_run(resume, options.mapping().get("epochs"), runs if has_runs else None)
    elif repeat:
        # Read before the run, so that a missing file is reported at once.
        before = read_metadata(repeat, "evaluate", "metrics")
        unfinished = new_run(repeated_experiment(repeat), runs)
    else:
        unfinished = new_run(options.experiment(), runs)
    with stdout_to_stderr(output_format):
        folders = run_pipeline(unfinished, registration)
    outputs, metrics = artifacts(folders), read_metrics(folders)
    if registration:
        metrics |= load_metrics(folders.registration)
    show(output_format, to_json(metrics, outputs), summary(metrics, outputs, str(folders.run)))
    if repeat:
        click.echo(compare(before, metrics), err=output_format == "json")


@dataclasses.dataclass(frozen=True)
class UnfinishedRun:
    """Run to start or to resume.

    Attributes:
        experiment: Experiment of the run.
        folder: Folder of the run.
        fields: Fields of the experiment for the record, or None for those of the checked experiment.
        earlier_epochs: Numbers of epochs with which training began before.
    """

    experiment: ExperimentConfig
    folder: Path
    fields: Mapping[str, Any] | None = None
    earlier_epochs: tuple[int, ...] = ()


def new_run(experiment: ExperimentConfig, runs: Path) -> UnfinishedRun:
    """Return a run of an experiment in a new folder."""
    return UnfinishedRun(experiment, runs / f"qcnn-{timestamp()}")


def read_unfinished_run(run: Path, epochs: object, runs: Path | None) -> UnfinishedRun:
    """Return a run to resume, in its folder or as a copy.

    Args:
        run: Folder of the run.
        epochs: Total number of epochs, or None for that of the run.
        runs: Folder for a new run that continues from the checkpoints of this one, or None to continue in its folder.

    Raises:
        ArtifactError: If the folder is not a run.
        ConfigError: If the number of epochs is less than that of the run.
    """
    from qcnn.model import checkpoints

    experiment, fields, earlier = _saved_experiment(run)
    training = (run / "train" / "training").absolute()
    has_begun = checkpoints.any_in(training / checkpoints.FOLDER)
    if not has_begun:
        click.echo(f"{run} ended before its first checkpoint; training starts from scratch", err=True)
    changes = {} if epochs is None else {"epochs": epochs}
    changed = from_mapping(merge(experiment.model_dump(), changes))
    if changed.epochs < experiment.epochs:
        raise ConfigError(f"epochs: must be at least {experiment.epochs}, as in {run}. Given: {changed.epochs}")
    if has_begun and changed.epochs > experiment.epochs:
        earlier = (*earlier, experiment.epochs)
    if runs is None:
        return UnfinishedRun(changed, run, merge(fields, changes), earlier)
    if has_begun:
        changed = from_mapping(merge(changed.model_dump(), {"continue_from": str(training)}))
    return dataclasses.replace(new_run(changed, runs), earlier_epochs=earlier)


def _saved_experiment(run: Path) -> tuple[ExperimentConfig, dict[str, Any], tuple[int, ...]]:
    """Return the experiment of a run, its recorded fields, and earlier numbers of epochs.

    The experiment has the metadata of its data file if the dataset of the run exists.
    """
    find_runs([str(run)], run.parent)
    if of_trial(run).dataset.parent.exists():
        raise ArtifactError(f"run: must not be a trial of a study, which qcnn study --resume continues. Given: {run}")
    try:
        record = read_record(run)
    except FileNotFoundError:
        # A run of an earlier release.
        experiment = experiment_of(run)
        return experiment, experiment.model_dump(), ()
    except (OSError, ValueError):
        raise ArtifactError(f"run: {FILE} is damaged. Given: {run}") from None
    try:
        # The number of epochs may have been raised since the dataset was written.
        experiment = experiment_of(run).model_copy(update={"epochs": record.words["epochs"]})
    except ArtifactError:
        # The run ended before its dataset was complete.
        experiment = from_saved(record.words)
    return experiment, dict(record.words), record.earlier_epochs


def repeated_experiment(run: Path) -> ExperimentConfig:
    """Return the experiment of a finished run, to train it again.

    Raises:
        ArtifactError: If the folder has no exported model, or the run cannot be repeated.
    """
    with contextlib.suppress(OSError, ValueError):
        record = read_record(run)
        if record.earlier_epochs:
            numbers = ", ".join(map(str, record.earlier_epochs))
            raise ArtifactError(
                f"run: cannot be repeated, because it began with {numbers} epochs and was continued with "
                f"{record.words['epochs']}. Given: {run}"
            )
    return experiment_of(run, "export-weights", "model")


def run_pipeline(unfinished: UnfinishedRun, registration: RegistrationTarget | None = None) -> RunFolders:
    """Check an experiment, run all steps of the pipeline locally and return the folders of the run.

    Args:
        unfinished: Run to start or to resume.
        registration: Where the last step registers the model. None: there is no such step.

    Raises:
        ArtifactError: If the folder cannot be written.
        QcnnError: If the experiment cannot run, see `check_experiments`.
        StepError: If a step fails; the log contains the reason.
    """
    with terminal(unfinished.folder.absolute()) as observer:
        # A run that has its dataset does not need the data file.
        place = dataclasses.replace(LOCAL, has_inputs=not of_run(unfinished.folder).dataset.exists())
        (experiment,) = checked([unfinished.experiment], observer, place)
        folders = of_run(writable_folder(unfinished.folder.parent) / unfinished.folder.name)
        run_experiment(
            experiment,
            folders,
            observer,
            fields=unfinished.fields,
            earlier_epochs=unfinished.earlier_epochs,
            registration=registration,
        )
    return folders


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
        **({"baselines": folders.baselines} if folders.baselines.exists() else {}),
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
    rows = [(title, f"{value:.4f}") for title, value in titled_metrics(metrics, _METRICS).items()]
    rows += baseline_texts(metrics).items()
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
