"""Training runs and hyperparameter studies in Python, equal to those of qcnn run and qcnn study."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from qcnn.api import progress as steps
from qcnn.api.experiments import Experiment, from_config, require_experiment, to_plain
from qcnn.api.models import Model, load
from qcnn.atomic_files import folder_lock
from qcnn.circuits.formats.loading import with_circuits
from qcnn.components.local_steps import (
    STEP_MODULES,
    Step,
    run_experiment,
    run_in_subprocess,
    run_trial,
    select_best_trial,
)
from qcnn.components.steps.study import read_trial
from qcnn.errors import ArtifactError, TrainingError
from qcnn.experiment.config import ExperimentConfig
from qcnn.frozen import freeze
from qcnn.jobs.local.fork_client import fork_server
from qcnn.jobs.local.processes import LineHandler
from qcnn.jobs.local.runner import ProcessPool, run_processes
from qcnn.model.checkpoints import load_history
from qcnn.model.history import EpochMetrics
from qcnn.planning.checks import LOCAL, check_experiments
from qcnn.process.error_lines import errors_raised
from qcnn.process.extras import check, translate_errors
from qcnn.process.standard_streams import process_lock
from qcnn.results.local_run import RunFolders, of_run, of_trial, read_metrics
from qcnn.run_names import timestamp
from qcnn.studies.record import table
from qcnn.studies.trials import plan, search_from_mapping
from qcnn.targets.local.target import find_runs, read_experiment

logger = logging.getLogger("qcnn")

# Parent of the folders of runs without a given folder.
RUNS = Path("runs")


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """Result of a training run: losses of every epoch, metrics of the held-out samples, and folders.

    `folder` contains `dataset`, `training` (checkpoints), `logs` (TensorBoard), `exported` (the model) and `report` (an
    HTML page).
    """

    experiment: Experiment
    folder: Path
    dataset: Path
    training: Path
    logs: Path
    exported: Path
    report: Path
    history: tuple[EpochMetrics, ...]
    metrics: Mapping[str, float]

    @property
    def model(self) -> Model:
        """The trained network."""
        return load(self.exported)

    @classmethod
    def from_folder(cls, folder: str | PathLike[str]) -> TrainingResult:
        """Read a complete run of `qcnn.train` or `qcnn run`.

        Args:
            folder: Folder of the run.

        Raises:
            ArtifactError: If the folder is not that of a complete run, or is damaged.
        """
        (run,) = find_runs([os.fspath(folder)], Path())
        folders = of_run(run.absolute())
        if not folders.metrics.exists():
            raise ArtifactError(f"run: must be complete, with the metrics of its evaluation. Given: {folder}")
        return read(from_config(read_experiment(run)), folders)


def _one_at_a_time() -> contextlib.AbstractContextManager[object]:
    """Return the lock of the training runs of this process, which follow one another in all threads.

    Their fork server is that of the process.
    """
    return process_lock("training", os.getpid())


def _call(output: LineHandler, step: Step, folders: RunFolders) -> None:
    """Call a step in a separate process, so that TensorFlow's state and memory stay outside of the user's process.

    Args:
        output: Handler of its output lines.
        step: Step to call.
        folders: Folders of the run.

    Raises:
        QcnnError: If the step fails.
    """
    last_line = ""

    def forward(line: str) -> None:
        nonlocal last_line
        last_line = line.strip() or last_line
        output(line)

    try:
        run_in_subprocess(step, folders, forward)
    except SystemExit as error:
        raise TrainingError(f"{step.__name__} ended with exit code {error.code}: {last_line}") from None


@translate_errors("qcnn.train", "run")
def train(
    experiment: Experiment, folder: str | PathLike[str] | None = None, *, progress: bool = True
) -> TrainingResult:
    """Train an experiment locally, export the network and evaluate it, like `qcnn run`.

    Training runs in `workers` separate processes, which an interrupt terminates. The folder has the layout of `qcnn
    run`, so `qcnn compare` and `qcnn tensorboard` include it. An incomplete run in the folder is resumed. A complete
    run is read.

    Args:
        experiment: Experiment to train.
        folder: Folder of the run. None: a new folder in runs/.
        progress: Whether to display a progress bar in a notebook or terminal.

    Raises:
        ArtifactError: If the folder has other content, or is not writable.
        ConfigError: If the experiment cannot run locally.
        TrainingError: If training fails with a permanent error, such as a loss that is not finite.
        RetryableError: If restarts exceed the limit. Training can be resumed from the folder.

    >>> import qcnn
    >>> experiment = qcnn.Experiment(qubits=4, rounds=10, epochs=2, workers=1, strategy="none")
    >>> training = qcnn.train(experiment, "first")
    >>> [epoch.epoch for epoch in training.history], sorted(training.metrics)[:3]
    ([1, 2], ['accuracy', 'epoch_seconds', 'epochs'])
    >>> training.model.predict(qubit=[0, 3], angle=[0.1, -2.0]).shape
    (2,)
    """
    root = Path(folder) if folder is not None else RUNS / f"qcnn-{timestamp()}"
    folders, config = of_run(root.absolute()), require_experiment(experiment).config
    if not steps.has_succeeded(folders.run, config):
        check("run")
        with _one_at_a_time(), fork_server(STEP_MODULES), errors_raised():
            check_experiments([config], LOCAL, logger.warning)
            with steps.recorded_run(config, folders.run, progress=progress) as run:
                run_job = functools.partial(run_processes, output=run.output)
                call = functools.partial(_call, run.output)
                run_experiment(config, folders, run.step_context, run.on_event, run=run_job, call=call)
    return read(experiment, folders)


def read(experiment: Experiment, folders: RunFolders) -> TrainingResult:
    """Return the result of a complete run."""
    return TrainingResult(
        experiment=experiment,
        folder=folders.run,
        dataset=folders.dataset,
        training=folders.training,
        logs=folders.logs,
        exported=folders.exported,
        report=folders.report,
        history=load_history(folders.training),
        metrics=freeze(read_metrics(folders)),
    )


# Earlier name, which is kept in the public interface.
Training = TrainingResult


@dataclasses.dataclass(frozen=True)
class Study:
    """Result of a study: the fields and losses of each trial, and the trial with the best validation loss."""

    folder: Path
    trials: Sequence[Mapping[str, Any]]
    best: TrainingResult


@translate_errors("qcnn.study", "run")
def study(
    experiment: Experiment,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    ranges: Mapping[str, Sequence[Any]] | None = None,
    random: int = 0,
    folder: str | PathLike[str] | None = None,
    progress: bool = True,
) -> Study:
    """Train trials of an experiment with other fields, and evaluate the one with the best validation loss.

    Trials run one at a time. Each trial has a separate seed, counted from the experiment's seed, unless the seed is
    searched. A failed trial has its reason in its row.

    Args:
        experiment: Experiment with the fields that all trials share.
        grid: Values to try, by field.
        ranges: (low, high) or (low, high, "log"), by field, to sample from.
        random: Number of random trials.
        folder: Folder of the study. None: a new folder in runs/.
        progress: Whether to display a progress bar in a notebook or terminal.

    Raises:
        ConfigError: If the search is invalid, or a trial cannot run.
        TrainingError: If all trials fail.

    >>> import qcnn
    >>> experiment = qcnn.Experiment(qubits=4, rounds=10, epochs=2, workers=1, strategy="none")
    >>> study = qcnn.study(experiment, grid={"learning_rate": [0.01, 0.1]}, folder="search")
    >>> [trial["learning_rate"] for trial in study.trials], study.best.experiment.qubits
    ([0.01, 0.1], 4)
    """
    search: dict[str, Any] = {
        name: {field: _to_lists(values) for field, values in by_field.items()}
        if isinstance(by_field, Mapping)
        else by_field
        for name, by_field in (("grid", grid), ("range", ranges))
    }
    search["grid"] = with_circuits(search["grid"])
    configs = plan(require_experiment(experiment).given, search_from_mapping({**search, "random": random}))
    root = Path(folder) if folder is not None else RUNS / f"qcnn-study-{timestamp()}"
    root = root.absolute()
    trial_folders = [_of_trial(root, number) for number in range(len(configs))]
    check("run")
    with _one_at_a_time(), fork_server(STEP_MODULES), errors_raised():
        pairs = zip(configs, trial_folders, strict=True)
        unfinished = [config for config, folders in pairs if not steps.has_succeeded(folders.run, config)]
        check_experiments(unfinished, LOCAL, logger.warning)
        with folder_lock("study", root):
            _train_all(configs, trial_folders, progress=progress)
            selected = select_best_trial(root, trial_folders, call=functools.partial(_call, lambda line: None))
    header, rows = table([read_trial(each.training) for each in trial_folders])
    trials = freeze([dict(zip(header, row, strict=True)) for row in rows])
    return Study(root, trials, read(from_config(configs[selected.best]), selected.folders))


def _to_lists(values: Any) -> Any:
    """Return values in file format. A value that is not a list is returned unchanged and rejected later."""
    if isinstance(values, Iterable) and not isinstance(values, str | Mapping):
        return [to_plain(value) for value in values]
    return values


def _of_trial(study: Path, number: int) -> RunFolders:
    return of_trial(study / f"trial-{number}")


def _train_all(configs: Sequence[ExperimentConfig], trials: Sequence[RunFolders], *, progress: bool) -> None:
    """Train the trials that are not complete. All trials share the same processes."""
    with contextlib.closing(ProcessPool(lives_on=True)) as pool:
        for config, folders in zip(configs, trials, strict=True):
            if steps.has_succeeded(folders.run, config):
                continue
            with steps.recorded_run(config, folders.run, progress=progress) as run:
                run_job = functools.partial(pool.run, output=run.output)
                run_trial(config, folders, run_job, run.step_context, run.on_event)
