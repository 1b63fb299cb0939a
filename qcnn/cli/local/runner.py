"""Run the pipeline on this machine through Kubeflow's own local runner."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import psutil

from qcnn.cli.errors import OutputLostError
from qcnn.cli.local.run_log import RunLog
from qcnn.components.steps.train_local import EVENTS_VARIABLE, LOADED
from qcnn.errors import ArtifactError
from qcnn.experiment import ExperimentConfig
from qcnn.extras import check
from qcnn.jobs.local.fork_client import ForkServer, fork_server
from qcnn.jobs.local.processes import GRACE
from qcnn.results.local_run import Recorder
from qcnn.startup import terminated_as_interrupt
from qcnn.targets.errors import StepError

if TYPE_CHECKING:
    from kfp import dsl
    from kfp.dsl.base_component import BaseComponent

# The train step needs a little more than it gives its workers, in seconds.
_GRACE = GRACE + 1.0
# What other steps load besides.
_EVALUATION = ("qcnn.results.evaluate", "qcnn.results.report")


def run_pipeline(experiment: ExperimentConfig, runs: Path) -> dict[str, dsl.Artifact]:
    """Execute the main pipeline on an experiment, see `execute`."""

    def load() -> BaseComponent:
        from qcnn.pipelines.qcnn import qcnn

        return qcnn()

    words = experiment.model_dump()
    with loaded_once() as server:
        outputs = execute(load, words, words, runs, server)
    from qcnn.pipelines.qcnn import Outputs

    return {name: outputs[name] for name in Outputs._fields}


def loaded_once() -> contextlib.AbstractContextManager[ForkServer]:
    """Have the processes of runs that are executed in this block forked from one, which loads TensorFlow."""
    check("run")
    return fork_server((*LOADED, *_EVALUATION))


def execute(
    load: Callable[[], BaseComponent],
    arguments: Mapping[str, Any],
    words: Mapping[str, Any],
    runs: Path,
    server: ForkServer,
    here: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
) -> dict[str, dsl.Artifact]:
    """Execute a pipeline that is compiled for Kubeflow, each step a process; return its output artifacts.

    Every run makes a folder of its own under `runs`, with a record of it, its experiment's `words` and its log. `load`
    imports the pipeline, and with it Kubeflow's SDK. A step that is named in `here` is a function of this process.

    Raises:
        ArtifactError: the folder cannot be written.
        StepError: a step failed; the log says why.
    """
    root = _prepare(runs)
    with warnings.catch_warnings():
        # Kubeflow's SDK warns of its own imports, and of images that are not named python.
        warnings.simplefilter("ignore")
        from kfp import local

        from qcnn.cli.local.runner_hooks import steps_reported

        pipeline = load()
        local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(root))
        with contextlib.closing(RunLog(sys.stdout)) as log:
            recorder = Recorder(words)

            def begin_step(name: str, run: Path) -> None:
                recorder.begin_step(name, run)
                log.begin_step(name, run)

            try:
                with (
                    recorder,
                    terminated_as_interrupt(),
                    _no_process_left(server),
                    _interpreter_by_name(),
                    steps_reported(begin_step, recorder.end_step, server, here),
                    contextlib.redirect_stdout(log),
                ):
                    outputs = pipeline(**arguments).outputs
            except OutputLostError as error:
                raise StepError(f"{error}; the run was ended. Given: {recorder.folder or runs}", error.code) from None
            except RuntimeError:
                if not recorder.failed_step:
                    raise
                failed = f"step {recorder.failed_step} failed, see the lines above"
                raise StepError(f"{failed}. Given: {recorder.folder}") from None
    return dict(outputs)


def _prepare(runs: Path) -> Path:
    """Create the folder of runs and check that it can be written before any work is done."""
    root = runs.absolute()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        raise ArtifactError(f"runs: the folder cannot be written ({error.strerror}). Given: {runs}") from None
    return root


@contextlib.contextmanager
def _interpreter_by_name() -> Iterator[None]:
    """Let this interpreter be found as `python3`.

    The runner puts the interpreter's path in place of every "python3" in a step's command, unquoted, and in
    every argument: paths with spaces, and folders or models named like python3, would be torn apart.
    """
    executable, path = sys.executable, os.environ["PATH"]
    os.environ["PATH"] = f"{Path(executable).parent}{os.pathsep}{path}"
    os.environ[EVENTS_VARIABLE] = "1"
    sys.executable = "python3"
    try:
        yield
    finally:
        sys.executable = executable
        os.environ["PATH"] = path
        del os.environ[EVENTS_VARIABLE]


@contextlib.contextmanager
def _no_process_left(server: ForkServer) -> Iterator[None]:
    """End what runs where this block fails, and wait until it is gone; the server stays."""
    try:
        yield
    except BaseException:
        processes = [process for process in psutil.Process().children(recursive=True) if process.pid != server.pid]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        _, alive = psutil.wait_procs(processes, timeout=_GRACE)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        raise
