"""Processes of local runs. They train, or call another step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qcnn.circuits.formats.embedded import is_function
from qcnn.components.local_steps import STEP_MODULES, Step, run_in_subprocess
from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.job import JobSpec
from qcnn.jobs.local.processes import IsInterrupted, never_interrupted
from qcnn.jobs.local.runner import ProcessPool
from qcnn.jobs.local.session import Session
from qcnn.process.extras import check
from qcnn.simulators.registry import SIMULATORS
from qcnn.targets.local.active_run import ActiveRun
from qcnn.targets.local.callbacks import EpochCallback, EpochCallbacks

# Processes of this process' runs.
SESSION = Session(STEP_MODULES)


def load_libraries() -> None:
    """Check that the libraries of training are installed, and let the fork server load them meanwhile.

    Raises:
        ModuleNotFoundError: If a library is not installed.
        ConfigError: If a limit of this process is too small for them.
    """
    check("run")
    SESSION.start()


def job_runner(
    config: ExperimentConfig,
    run: ActiveRun,
    *,
    functions: Sequence[EpochCallback] = (),
    own: ProcessPool | None = None,
    is_interrupted: IsInterrupted = never_interrupted,
) -> Callable[[JobSpec], None]:
    """Return the function that runs a training job, in processes of an earlier run if possible.

    Args:
        config: Experiment.
        run: Run of the experiment.
        functions: Functions to call after each epoch.
        own: Processes of the caller to use. None: idle ones of the session.
        is_interrupted: Function that decides whether another thread ends the job.
    """
    callbacks = EpochCallbacks(functions)

    def handle(process: str, event: Mapping[str, Any]) -> None:
        run.observer.event(process, event)
        callbacks.report(event)

    def train(job: JobSpec) -> None:
        with _processes(config, own) as processes:
            processes.run(job, handle, run.line, callbacks.should_stop if callbacks else None, is_interrupted)

    return train


@contextlib.contextmanager
def _processes(config: ExperimentConfig, own: ProcessPool | None) -> Iterator[ProcessPool]:
    # A module of the user, or of another package, may have changed since these processes have loaded it.
    is_reusable = not is_function(config.model) and config.simulator in ("auto", *SIMULATORS)
    if own and is_reusable:
        yield own
    else:
        if own:
            # Idle processes would keep their memory.
            own.close()
        with SESSION.processes(is_reusable=is_reusable) as processes:
            yield processes


def call_step(
    step: Step,
    paths: Sequence[Path],
    output: Callable[[str], None],
    is_interrupted: IsInterrupted = never_interrupted,
) -> None:
    """Call a step in a process of the fork server.

    Args:
        step: Step to call.
        paths: Arguments of the step, absolute.
        output: Handler of the output lines of the process.
        is_interrupted: Function that decides whether another thread ends the step.

    Raises:
        QcnnError: If the step raises it, see `run_in_subprocess`.
    """
    run_in_subprocess(step, paths, SESSION.start(), output, is_interrupted)
