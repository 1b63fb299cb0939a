"""Local studies: one path for the command and for Python. Several trials are trained at the same time."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

from qcnn.atomic_files import folder_lock
from qcnn.circuits.chains import CHAINS
from qcnn.components.local_steps import (
    BestTrial,
    generate_step,
    read_study,
    select_step,
    train_step,
    trial_data_step,
)
from qcnn.errors import QcnnError, TrainingError
from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.local.runner import ProcessPool
from qcnn.planning.checks import check_trials
from qcnn.process.signals import terminated_as_interrupt
from qcnn.results.local_run import RunFolders, of_trial
from qcnn.run_names import timestamp
from qcnn.studies.record import SELECT_STEP, finished_trials, has_succeeded
from qcnn.studies.trial_queue import NumberedTrial, TrialQueue
from qcnn.studies.trials import FailedTrial, save_failure
from qcnn.targets.local.active_run import error_lines, observed_step, recorded
from qcnn.targets.local.observer import Observer
from qcnn.targets.local.step_processes import SESSION, call_step, job_runner, load_libraries
from qcnn.targets.local.trial_threads import Caller, run_in_threads


@dataclasses.dataclass(frozen=True)
class CheckedTrials:
    """Trials that this machine can train, with the metadata of their files, and how many at the same time."""

    experiments: Sequence[ExperimentConfig]
    at_once: int


def checked_trials(trials: Sequence[ExperimentConfig], parallelism: int, observer: Observer) -> CheckedTrials:
    """Check the trials of a study while the fork server loads the libraries.

    Args:
        trials: Experiments of the trials.
        parallelism: Maximum number of trials at the same time.
        observer: Receives warnings.

    Raises:
        MissingLibraryError: If a library is not installed.
        QcnnError: If a trial cannot run, see `check_experiments`.
    """
    load_libraries()
    return CheckedTrials(*check_trials(trials, parallelism, observer.warn))


def run_study(trials: CheckedTrials, study: Path, observer: Observer) -> BestTrial:
    """Train the trials of a study that are not finished, and export and evaluate the best of all.

    A trial that fails is a row of the table of trials.

    Args:
        trials: Trials of the study.
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
        unfinished = []
        for number, config in enumerate(trials.experiments):
            if config in finished:
                observer.trial(number, len(trials.experiments), is_trained=True)
            else:
                unfinished.append((number, config))
        _run_trials(unfinished, trials, root, observer)
        with observed_step(SELECT_STEP, observer), error_lines(observer.line):
            call_step(select_step, (root,), observer.line)
        return read_study(root)


@dataclasses.dataclass(frozen=True)
class _Thread:
    """Thread that trains trials in its own processes.

    `generation` is held while it generates data. `caller` is None if there is no other thread.
    """

    processes: ProcessPool
    generation: threading.Lock
    caller: Caller | None = None

    def is_interrupted(self) -> bool:
        return self.caller is not None and self.caller.is_interrupted()


def _run_trials(unfinished: Sequence[NumberedTrial], trials: CheckedTrials, study: Path, observer: Observer) -> None:
    """Train trials of a study.

    Args:
        unfinished: Trials to train.
        trials: All trials of the study.
        study: Folder of the study.
        observer: Display.
    """
    at_once = max(1, min(trials.at_once, len(unfinished)))
    queue, lock, generation = TrialQueue(unfinished, at_once), threading.Lock(), threading.Lock()

    def run_next(previous: ExperimentConfig | None, thread: _Thread) -> ExperimentConfig | None:
        with lock:
            if thread.is_interrupted() or (taken := queue.take(previous)) is None:
                return None
            number, config = taken
            show = functools.partial(observer.trial, number, len(trials.experiments), is_trained=False)
            # The names of folders have the order in which the trials start.
            folders = of_trial(study / f"qcnn-trial-{timestamp()}")
            if thread.caller:
                thread.caller.call(show)
                display = thread.caller.observer(observer.of_trial(number))
            else:
                show()
                display = observer
        _run_trial(config, folders, display, thread)
        return config

    def work(caller: Caller | None) -> None:
        with SESSION.processes(is_reusable=True) as processes:
            thread = _Thread(processes, generation, caller)
            trained = run_next(None, thread)
            while trained:
                trained = run_next(trained, thread)

    if at_once > 1:
        run_in_threads(at_once, work, SESSION.close_loading)
    else:
        work(None)


def _run_trial(config: ExperimentConfig, folders: RunFolders, observer: Observer, thread: _Thread) -> None:
    try:
        with recorded(config.model_dump(), folders.run, observer) as run:
            with run.step("trial-data"):
                if config.data in CHAINS and thread.caller:
                    # Ground states take as long as training, and the threads of a process would take turns. If that
                    # process is killed, this one generates them.
                    with contextlib.suppress(TrainingError):
                        call_step(trial_data_step, (folders.run,), run.line, thread.is_interrupted)
                # A function of the user is not called by two threads at the same time.
                with thread.generation:
                    completed = generate_step(config, folders)
            with run.step("train"):
                runner = job_runner(completed, run, own=thread.processes, is_interrupted=thread.is_interrupted)
                train_step(completed, folders, runner, trial=True)
    except QcnnError as error:
        # A failed training run records its error itself; this records the error of another step.
        save_failure(FailedTrial(config, str(error)), folders.training)
