"""Local runs and studies: one path for the command and for Python. The observer displays them.

The record, the log file and the lock belong to the folder of a run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import re
import shutil
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from qcnn import data
from qcnn.atomic_files import folder_lock, writable
from qcnn.circuits.formats.embedded import is_function, with_display_names
from qcnn.components.local_steps import (
    STEP_MODULES,
    BestTrial,
    Step,
    evaluate_model_step,
    evaluate_step,
    export_step,
    generate_step,
    read_study,
    register_step,
    remove_model_of_fewer_epochs,
    run_in_subprocess,
    select_step,
    tensorboard_step,
    train_step,
)
from qcnn.components.steps.register import RegistrationTarget
from qcnn.data import Dataset
from qcnn.errors import QcnnError, WriteError
from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.job import JobSpec
from qcnn.jobs.local.session import Session
from qcnn.monitoring import logs
from qcnn.planning.checks import LOCAL, Place, check_experiments
from qcnn.process.error_lines import translate_limit_errors
from qcnn.process.extras import check
from qcnn.process.signals import terminated_as_interrupt
from qcnn.process.standard_streams import ERROR
from qcnn.results.class_scores import Confusion
from qcnn.results.local_run import LOG, RunFolders, RunRecorder, of_trial
from qcnn.run_names import timestamp
from qcnn.simulators.registry import SIMULATORS
from qcnn.studies.record import SELECT_STEP, finished_trials, has_succeeded
from qcnn.studies.trials import FailedTrial, save_failure
from qcnn.targets.local.callbacks import EpochCallback, EpochCallbacks
from qcnn.targets.local.observer import Observer

logger = logging.getLogger("qcnn")

# Processes of this process' runs.
SESSION = Session(STEP_MODULES)
# Precedes the output of a step in the log.
_INDENT = "    "
# Escape sequences of a terminal.
_STYLE = re.compile(r"\x1b\[[;?0-9]*[a-zA-Z]")


def checked(
    experiments: Sequence[ExperimentConfig], observer: Observer, place: Place = LOCAL
) -> list[ExperimentConfig]:
    """Check experiments while the fork server loads the libraries, and return them with the metadata of their files.

    Args:
        experiments: Experiments to train.
        observer: Receives warnings.
        place: What is known of the machine.

    Raises:
        MissingLibraryError: If a library is not installed.
        QcnnError: If an experiment cannot run, see `check_experiments`.
    """
    check("run")
    SESSION.start()
    return check_experiments(experiments, place, observer.warn)


def run_experiment(
    config: ExperimentConfig,
    folders: RunFolders,
    observer: Observer,
    *,
    fields: Mapping[str, Any] | None = None,
    earlier_epochs: Sequence[int] = (),
    callbacks: Sequence[EpochCallback] = (),
    registration: RegistrationTarget | None = None,
) -> None:
    """Run all steps of a checked experiment. Complete outputs in its folders are kept.

    Args:
        config: Experiment to run.
        folders: Folders of the run.
        observer: Display.
        fields: Fields of the experiment for the record. None: those of `config`.
        earlier_epochs: Numbers of epochs with which training began before, for the record.
        callbacks: Functions to call after each epoch.
        registration: Where the last step registers the model. None: there is no such step.

    Raises:
        CallbackError: If a callback raises an exception. Training can be resumed.
        QcnnError: If a step fails. The log contains the reason.
    """
    with _recorded(config.model_dump() if fields is None else fields, folders.run, observer, earlier_epochs) as run:
        with run.step("generate-data"):
            completed = generate_step(config, folders)
        with run.step("train"):
            train_step(completed, folders, _runner(completed, run, callbacks))
        with run.step("export-weights"):
            remove_model_of_fewer_epochs(completed, folders)
            _call(export_step, (folders.run,), run.line)
        with run.step("tensorboard"):
            tensorboard_step(folders)
        with run.step("evaluate"):
            _call(evaluate_step, (folders.run,), run.line)
        if registration:
            with run.step("register"):
                register_step(folders, registration)


def run_study(trials: Sequence[ExperimentConfig], study: Path, observer: Observer) -> BestTrial:
    """Train the trials of a study that are not finished, one at a time, and export and evaluate the best of all.

    A trial that fails is a row of the table of trials.

    Args:
        trials: Checked experiments of the trials.
        study: Folder of the study, with its record.
        observer: Display.

    Raises:
        ArtifactError: If another process runs the study, or a record is damaged.
        QcnnError: If no trial succeeds, or the best one cannot be evaluated.
    """
    root = study.absolute()
    with terminated_as_interrupt(), folder_lock("study", root):
        if has_succeeded(root):
            # Another process has run it in the meantime.
            return read_study(root)
        finished = finished_trials(root)
        shutil.rmtree(root / SELECT_STEP, ignore_errors=True)
        for number, config in enumerate(trials):
            observer.trial(number, len(trials), is_trained=config in finished)
            if config not in finished:
                _run_trial(config, of_trial(root / f"qcnn-trial-{timestamp()}"), observer)
        with _observed_step(SELECT_STEP, observer), _error_lines(observer.line):
            _call(select_step, (root,), observer.line)
        return read_study(root)


@dataclasses.dataclass(frozen=True)
class ModelEvaluation:
    """Predictions for a test split, float64 (samples,) or (samples, classes), their metrics and confusion matrix."""

    predictions: npt.NDArray[np.float64]
    metrics: dict[str, float]
    confusion: Confusion


def evaluate_model(model: Path, dataset: Dataset) -> ModelEvaluation:
    """Evaluate a model on the test split of a dataset, in another process.

    Args:
        model: Folder of the model.
        dataset: Dataset that the model was trained on.

    Raises:
        MissingLibraryError: If a library is not installed.
        QcnnError: If the evaluation fails.
    """
    check("run")
    with tempfile.TemporaryDirectory(prefix="qcnn-") as folder, terminated_as_interrupt():
        samples, result = Path(folder, "dataset"), Path(folder, "result.npz")
        data.save(dataset, samples)
        _call(evaluate_model_step, (model.absolute(), samples, result), logger.info)
        with np.load(result) as arrays:
            described = json.loads(str(arrays["described"]))
            confusion = Confusion(tuple(described["confusion"]["classes"]), described["confusion"]["matrix"])
            return ModelEvaluation(arrays["predictions"], described["metrics"], confusion)


def _run_trial(config: ExperimentConfig, folders: RunFolders, observer: Observer) -> None:
    try:
        with _recorded(config.model_dump(), folders.run, observer) as run:
            with run.step("trial-data"):
                completed = generate_step(config, folders)
            with run.step("train"):
                train_step(completed, folders, _runner(completed, run), trial=True)
    except QcnnError as error:
        # A failed training run records its error itself; this records the error of another step.
        save_failure(FailedTrial(config, str(error)), folders.training)


class _ActiveRun:
    """Run whose steps are recorded, logged and observed."""

    def __init__(self, recorder: RunRecorder, folder: Path, observer: Observer) -> None:
        self._recorder, self._folder, self.observer = recorder, folder, observer
        self._log: TextIO | None = None

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Context manager of a step."""
        # Also creates and locks the folder.
        self._recorder.begin_step(name, self._folder)
        self._write(f"== {name}")
        try:
            with (
                _observed_step(name, self.observer),
                _error_lines(self.line),
                _logged(self.line),
                translate_limit_errors(),
            ):
                yield
        except Exception:
            self._recorder.end_step(False)
            raise
        self._recorder.end_step(True)

    def line(self, text: str) -> None:
        """Log and show a line of the output of a step.

        Raises:
            WriteError: If the log cannot be written. The line is shown nevertheless.
        """
        plain = _STYLE.sub("", text)
        try:
            self._write(f"{_INDENT}{plain}")
        finally:
            self.observer.line(plain)

    def close(self) -> None:
        """Close the log."""
        with contextlib.suppress(OSError):
            if self._log:
                self._log.close()

    def _write(self, line: str) -> None:
        with writable(self._folder / LOG):
            if self._log is None:
                self._log = (self._folder / LOG).open("a", encoding="utf-8")
            self._log.write(f"{with_display_names(line)}\n")
            self._log.flush()


@contextlib.contextmanager
def _recorded(
    fields: Mapping[str, Any], folder: Path, observer: Observer, earlier_epochs: Sequence[int] = ()
) -> Iterator[_ActiveRun]:
    """Context manager that yields a run whose end is recorded."""
    with (
        RunRecorder(fields, earlier_epochs) as recorder,
        terminated_as_interrupt(),
        contextlib.closing(observer),
        contextlib.closing(_ActiveRun(recorder, folder, observer)) as run,
    ):
        yield run


@contextlib.contextmanager
def _observed_step(name: str, observer: Observer) -> Iterator[None]:
    observer.step(name, "running")
    try:
        yield
    except Exception:
        observer.step(name, "failed")
        raise
    observer.step(name, "succeeded")


@contextlib.contextmanager
def _error_lines(output: Callable[[str], None]) -> Iterator[None]:
    """Context manager that passes the lines of an error to a function."""
    try:
        yield
    except Exception as error:
        text = f"{ERROR}{error}" if isinstance(error, QcnnError) else traceback.format_exc()
        for line in text.splitlines():
            # The log may be the file that cannot be written.
            with contextlib.suppress(WriteError):
                output(line)
        raise


@contextlib.contextmanager
def _logged(output: Callable[[str], None]) -> Iterator[None]:
    """Context manager that also passes the log records of this thread to a function, line by line."""
    handler = _Lines(output)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Lines(logging.Handler):
    """Handler of the log records of a thread. An error of the output ends the run."""

    def __init__(self, output: Callable[[str], None]) -> None:
        super().__init__()
        self._output, self._thread = output, threading.get_ident()
        self.setFormatter(logs.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Pass the lines of a record on."""
        if record.thread == self._thread:
            for line in self.format(record).splitlines():
                self._output(line)


def _runner(
    config: ExperimentConfig, run: _ActiveRun, functions: Sequence[EpochCallback] = ()
) -> Callable[[JobSpec], None]:
    """Return the function that runs a training job, in processes of an earlier run if possible.

    Args:
        config: Experiment.
        run: Run of the experiment.
        functions: Functions to call after each epoch.
    """
    callbacks = EpochCallbacks(functions)

    def handle(process: str, event: Mapping[str, Any]) -> None:
        run.observer.event(process, event)
        callbacks.report(event)

    # A module of the user, or of another package, may have changed since these processes have loaded it.
    is_reusable = not is_function(config.model) and config.simulator in ("auto", *SIMULATORS)

    def train(job: JobSpec) -> None:
        with SESSION.processes(is_reusable=is_reusable) as processes:
            processes.run(job, handle, run.line, callbacks.should_stop if callbacks else None)

    return train


def _call(step: Step, paths: Sequence[Path], output: Callable[[str], None]) -> None:
    run_in_subprocess(step, paths, SESSION.start(), output)
