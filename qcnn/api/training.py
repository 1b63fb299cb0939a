"""Training runs and hyperparameter studies in Python, equal to those of qcnn run and qcnn study."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcnn.api.circuits import embedded_circuit
from qcnn.api.experiments import Experiment, from_config, require_experiment, to_plain
from qcnn.api.models import Model, load
from qcnn.api.progress import create_observer
from qcnn.circuits.formats.loading import circuit_field, with_circuits
from qcnn.components.local_steps import read_study
from qcnn.data import EXCITATIONS, resolve_files
from qcnn.errors import ArtifactError, ConfigError, format_value
from qcnn.experiment.config import ExperimentConfig
from qcnn.frozen import freeze
from qcnn.model.checkpoints import load_history
from qcnn.model.history import EpochMetrics
from qcnn.monitoring.validation_metrics import VAL_LOSS
from qcnn.process.extras import translate_errors
from qcnn.results import html, model_folder
from qcnn.results.local_run import FILE, RunFolders, of_run, read_metrics, read_record
from qcnn.run_names import timestamp
from qcnn.studies.record import (
    METRICS,
    compared_rows,
    is_study,
    load_metric,
    load_repeated,
    load_trials,
    save_trials,
    table,
)
from qcnn.studies.record import has_succeeded as is_complete
from qcnn.studies.row_results import row_results
from qcnn.studies.row_results import table as rows_table
from qcnn.studies.rows import RepeatedRows, repeated_rows, with_embedded_circuits
from qcnn.studies.trials import PARALLELISM, FailedTrial, Trial, plan, search_from_mapping
from qcnn.targets.local.callbacks import CallbackError, EpochCallback
from qcnn.targets.local.runs import checked, run_experiment
from qcnn.targets.local.study_runs import checked_trials, run_study
from qcnn.targets.local.target import find_runs, read_experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# File of the rows that a run was given, in its folder.
_ROWS = "rows.parquet"
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

    @translate_errors("TrainingResult.plot", "run")
    def plot(self) -> Figure:
        """Return the losses of every epoch as a matplotlib figure, that of the report.

        Raises:
            ArtifactError: If the exported model is missing or damaged.
        """
        # These imports load matplotlib.
        from qcnn.results import plots, report

        description, _ = model_folder.describe(self.exported)
        return plots.complete(report.ReportedRun.of(description).loss_figure(self.history).figure)

    def _repr_html_(self) -> str:
        """Return the experiment and the metrics for a notebook."""
        epochs = f"{len(self.history)} of {self.experiment.epochs}"
        rows = {"experiment": self.experiment, "trained epochs": epochs, **self.metrics}
        return html.notebook_table("Training", str(self.folder), (), [*rows.items()])

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


def train(
    experiment: Experiment,
    folder: str | PathLike[str] | None = None,
    *,
    data: object = None,
    callbacks: Sequence[EpochCallback] = (),
    progress: bool = True,
) -> TrainingResult:
    """Train an experiment locally, export the network and evaluate it, like `qcnn run`.

    Training runs in `workers` separate processes, which an interrupt terminates. The folder has the layout of `qcnn
    run`, so `qcnn compare` and `qcnn tensorboard` include it. An incomplete run in the folder is resumed. A complete
    run is read.

    Args:
        experiment: Experiment to train.
        folder: Folder of the run. None: a new folder in runs/.
        data: Rows to train on instead of the experiment's: arrays (x, y) of shapes (rows, columns) and (rows,), or a
            data frame or mapping of columns with a column `label` and, optionally, `split`. They follow the rules of
            files, and are written to rows.parquet in the folder, which `data` of the result's experiment names.
        callbacks: Functions to call after each epoch with its `qcnn.EpochMetrics`, in this thread. Training waits for
            them. If one returns True, training stops after this epoch, and the run is complete. What one raises ends
            the training processes and is raised here, and the run can be resumed.
        progress: Whether to display a progress bar in a notebook or terminal.

    Raises:
        ArtifactError: If the folder has other content, or is not writable, or a row is invalid.
        ConfigError: If the experiment cannot run locally, or a callback is not a function.
        TrainingError: If training fails with a permanent error, such as a loss that is not finite.
        RetryableError: If restarts exceed the limit. Training can be resumed from the folder.

    >>> import qcnn
    >>> experiment = qcnn.Experiment(qubits=4, rounds=10, epochs=2, workers=1, strategy="none")
    >>> training = qcnn.train(experiment, "first")
    >>> [epoch.epoch for epoch in training.history], sorted(training.metrics)[:3]
    ([1, 2], ['accuracy', 'epoch_seconds', 'epochs'])
    >>> training.model.predict(qubit=[0, 3], angle=[0.1, -2.0]).shape
    (2,)
    >>> stopped = qcnn.train(experiment, "stopped", callbacks=[lambda epoch: epoch.val_loss < 2])
    >>> len(stopped.history)
    1
    """
    try:
        return _train(experiment, folder, data, _functions(callbacks), progress=progress)
    except CallbackError as failed:
        error = failed.error
    # Outside of the handler, so that the error has no other context than that of the callback.
    raise error


def _functions(callbacks: object) -> tuple[EpochCallback, ...]:
    """Return callbacks, or raise ConfigError if they are not a list of functions."""
    if not isinstance(callbacks, Sequence) or isinstance(callbacks, str) or not all(map(callable, callbacks)):
        what = "must be a list of functions of the metrics of an epoch"
        raise ConfigError(f"callbacks: {what}. Given: {format_value(callbacks)}")
    return tuple(callbacks)


@translate_errors("qcnn.train", "run")
def _train(
    experiment: Experiment,
    folder: str | PathLike[str] | None,
    data: object,
    callbacks: Sequence[EpochCallback],
    *,
    progress: bool,
) -> TrainingResult:
    """Train, see `train`.

    Raises:
        CallbackError: If a callback raises an exception.
    """
    root = Path(folder) if folder is not None else RUNS / f"qcnn-{timestamp()}"
    if data is not None:
        experiment = _with_rows(require_experiment(experiment), data, root.absolute())
    folders, config = of_run(root.absolute()), require_experiment(experiment).config
    if not has_succeeded(folders.run, config):
        observer = create_observer(progress)
        (complete,) = checked([config], observer)
        run_experiment(complete, folders, observer, fields=config.model_dump(), callbacks=callbacks)
    return read(experiment, folders)


def _with_rows(experiment: Experiment, rows: object, folder: Path) -> Experiment:
    """Return an experiment on rows in the folder of its run, to which they are written unless it has them.

    Raises:
        ArtifactError: If the folder has a run of other rows, or other content, or a row is invalid.
        ConfigError: If the experiment cannot use these rows.
    """
    from qcnn.data import memory

    names = EXCITATIONS.columns if experiment.encoding == "excitation" else ()
    table, path = memory.table_of(rows, names), folder / _ROWS
    try:
        read_record(folder)
    except (OSError, ValueError):
        _check_empty(folder, f"a run of this experiment, with {FILE}", besides=_ROWS)
        is_complete_file = path.exists()
    else:
        is_complete_file = True
    if is_complete_file:
        memory.check_equal(table, path)
        return experiment.replace(data=path)
    is_new = not folder.exists()
    memory.write_rows(table, path)
    try:
        return experiment.replace(data=path)
    except BaseException:
        # Rows that cannot be used leave nothing behind.
        path.unlink(missing_ok=True)
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def has_succeeded(folder: Path, config: ExperimentConfig) -> bool:
    """Return whether a folder contains a succeeded run of this experiment.

    Raises:
        ArtifactError: If the folder contains other files.
    """
    try:
        record = read_record(folder)
    except (OSError, ValueError):
        # `_with_rows` writes the rows before the record.
        own = _ROWS if config.data == str(folder / _ROWS) else ""
        _check_empty(folder, f"a run of this experiment, with {FILE}", besides=own)
        return False
    if record.words != config.model_dump():
        raise ArtifactError(f"folder: must hold a run of this experiment, not of another. Given: {folder}")
    return record.state == "succeeded"


def _check_empty(folder: Path, other: str, *, besides: str = "") -> None:
    """Raise ArtifactError if a folder has content besides one file, which is not what it may be otherwise."""
    if folder.exists() and not (folder.is_dir() and {entry.name for entry in folder.iterdir()} <= {besides}):
        raise ArtifactError(f"folder: must be new or empty, or hold {other}. Given: {folder}")


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
    """Result of a study: the fields and losses of each trial, and the best trial.

    `rows` has the mean, standard error and verdict of each row of a study with `rows` or `repeat`, and is empty
    otherwise. The best trial is then the first one of the row with the best mean.
    """

    folder: Path
    trials: Sequence[Mapping[str, Any]]
    best: TrainingResult
    rows: Sequence[Mapping[str, Any]] = ()
    _results: Sequence[Trial | FailedTrial] = dataclasses.field(default=(), repr=False, compare=False)
    _metric: str = dataclasses.field(default=VAL_LOSS, repr=False, compare=False)

    @translate_errors("Study.plot", "run")
    def plot(self, metric: str = METRICS[0]) -> Figure:
        """Return a metric of all trials against each searched field as a matplotlib figure, like those of the page.

        Args:
            metric: Column of `trials`: val_loss, train_loss, val_accuracy or fresh_mse.

        Raises:
            ConfigError: If no trial has this metric.
        """
        # These imports load matplotlib.
        from qcnn.results import comparison, plots

        measured = [name for name in METRICS if any(isinstance(trial[name], float) for trial in self.trials)]
        if metric not in measured:
            raise ConfigError(f"metric: must be one of {', '.join(measured)}. Given: {format_value(metric)}")
        _, rows = compared_rows(self._results, metric=self._metric)
        label = plots.VALIDATION_LOSS if metric == METRICS[0] else metric
        return plots.complete(comparison.metric_figure(rows, metric, label))

    def _repr_html_(self) -> str:
        """Return the table of trials for a notebook."""
        shown = self.rows or self.trials
        return html.notebook_table("Study", str(self.folder), [*shown[0]], [list(each.values()) for each in shown])


@translate_errors("qcnn.study", "run")
def study(
    experiment: Experiment,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    ranges: Mapping[str, Sequence[Any]] | None = None,
    random: int = 0,
    metric: str = VAL_LOSS,
    rows: Sequence[Mapping[str, Any]] = (),
    repeat: int = 0,
    parallelism: int = PARALLELISM,
    folder: str | PathLike[str] | None = None,
    progress: bool = True,
) -> Study:
    """Train trials of an experiment with other fields, and evaluate the best one.

    Each trial has a separate seed, counted from the experiment's seed, unless the seed is searched. A failed trial has
    its reason in its row.

    Args:
        experiment: Experiment with the fields that all trials share.
        grid: Values to try, by field.
        ranges: (low, high) or (low, high, "log"), by field, to sample from.
        random: Number of random trials.
        metric: Metric of the validation split that selects the best trial: val_loss or val_accuracy.
        rows: Rows instead of `grid` and `ranges`, each with fields of the experiment, and optionally `name`, the
            `published` value to compare with, and `differences` to the published setting.
        repeat: Number of seeds of each row or combination, the same for all, whose trials are evaluated on their test
            splits. 0: one for each row, and another one for each combination.
        parallelism: Maximum number of parallel trials. Cores, memory and GPUs may reduce it.
        folder: Folder of the study. None: a new folder in runs/.
        progress: Whether to display a progress bar in a notebook or terminal.

    Raises:
        ConfigError: If the search or `parallelism` is invalid, or a trial cannot run.
        TrainingError: If all trials fail.

    >>> import qcnn
    >>> experiment = qcnn.Experiment(qubits=4, rounds=10, epochs=2, workers=1, strategy="none")
    >>> study = qcnn.study(experiment, grid={"learning_rate": [0.01, 0.1]}, folder="search")
    >>> [trial["learning_rate"] for trial in study.trials], study.best.experiment.qubits
    ([0.01, 0.1], 4)
    """
    if not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1:
        raise ConfigError(f"parallelism: must be an integer of at least 1. Given: {format_value(parallelism)}")
    search: dict[str, Any] = {
        name: {field: _to_lists(values) for field, values in by_field.items()}
        if isinstance(by_field, Mapping)
        else by_field
        for name, by_field in (("grid", grid), ("range", ranges))
    }
    if isinstance(search["grid"], Mapping) and isinstance(models := search["grid"].get("model"), list):
        qubits = require_experiment(experiment).config.qubits
        embedded = [each if isinstance(each, str) else embedded_circuit(each, qubits) for each in models]
        search["grid"] = {**search["grid"], "model": embedded}
    base = require_experiment(experiment).given
    search["grid"] = with_circuits(search["grid"], circuit_field(base, "inputs"))
    search |= {
        "random": random,
        "metric": metric,
        "rows": _plain_rows(rows, experiment.config.qubits),
        "repeat": repeat,
    }
    parsed = search_from_mapping(search)
    parsed = dataclasses.replace(parsed, rows=with_embedded_circuits(base, parsed.rows))
    configs = plan(base, parsed)
    repeated = repeated_rows(parsed.rows, parsed.repeat, len(configs))
    root = (Path(folder) if folder is not None else RUNS / f"qcnn-study-{timestamp()}").absolute()
    if is_study(root):
        _check_trials(root, configs, parsed.metric, repeated)
    if is_study(root) and is_complete(root):
        selected = read_study(root)
    else:
        observer = create_observer(progress)
        trials = checked_trials(configs, parallelism, observer)
        if not is_study(root):
            _check_empty(root, "this study")
            save_trials(trials.experiments, root, parsed.metric, repeated)
        selected = run_study(trials, root, observer)
    best = read(from_config(configs[selected.best]), selected.folders)
    records = _records(table(selected.trials, selected.metric, selected.best if repeated else None))
    results = _records(rows_table(row_results(repeated, selected.trials))) if repeated else ()
    return Study(root, records, best, results, tuple(selected.trials), selected.metric)


def _plain_rows(rows: Any, qubits: int) -> Any:
    """Return rows in file format. Rows of another form are returned unchanged and rejected later."""
    if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
        return rows
    plain = [to_plain(row) for row in rows]
    return [
        {**row, "model": embedded_circuit(row["model"], qubits)} if not isinstance(row.get("model", ""), str) else row
        for row in plain
    ]


def _records(found: tuple[list[str], list[list[Any]]]) -> Sequence[Mapping[str, Any]]:
    header, rows = found
    records: Sequence[Mapping[str, Any]] = freeze([dict(zip(header, row, strict=True)) for row in rows])
    return records


def _check_trials(study: Path, configs: Sequence[ExperimentConfig], metric: str, repeated: RepeatedRows | None) -> None:
    """Raise ArtifactError if a study has other trials, rows or another metric.

    The trials of the study have the metadata of their data files.
    """
    if (other := load_metric(study)) != metric:
        raise ArtifactError(f"metric: must be {other}, by which the study in {study} selects. Given: {metric}")
    trials = load_trials(study)
    if load_repeated(study) != repeated or (trials != configs and trials != resolve_files(configs)):
        raise ArtifactError(f"folder: must hold a study of these trials, not of others. Given: {study}")


def _to_lists(values: Any) -> Any:
    """Return values in file format. A value that is not a list is returned unchanged and rejected later."""
    if isinstance(values, Iterable) and not isinstance(values, str | Mapping):
        return [to_plain(value) for value in values]
    return values
