"""What surrounds the steps of a run in a command: its record, its log and what is shown."""

import contextlib
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qcnn.cli.errors import FAILED, OutputLostError
from qcnn.cli.run_log import RunLog
from qcnn.components.local_steps import Around, recorded
from qcnn.components.steps.train_local import LOADED
from qcnn.errors import ArtifactError
from qcnn.extras import check
from qcnn.jobs.local.fork_client import ForkServer, fork_server
from qcnn.jobs.local.processes import EventHandler
from qcnn.results.local_run import Recorder
from qcnn.startup import one_line_errors, terminated_as_interrupt
from qcnn.targets.errors import StepError

# What other steps load besides.
_EVALUATION = ("qcnn.results.evaluate", "qcnn.results.report")


def loaded_once() -> contextlib.AbstractContextManager[ForkServer]:
    """Have the processes of runs in this block forked from one, which loads TensorFlow."""
    check("run")
    return fork_server((*LOADED, *_EVALUATION))


def writable_folder(runs: Path) -> Path:
    """Create the folder of runs and check that it can be written before any work is done; return where it is.

    Raises:
        ArtifactError: it cannot be written.
    """
    root = runs.absolute()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        raise ArtifactError(f"runs: the folder cannot be written ({error.strerror}). Given: {runs}") from None
    return root


@contextlib.contextmanager
def shown_run(words: Mapping[str, Any], run: Path) -> Iterator[tuple[Around, EventHandler]]:
    """Record, log and show the steps that are run in this block, in the folder of the run of these words.

    Raises:
        StepError: a step failed, the log says why; or output or log cannot be written.
    """
    with contextlib.closing(RunLog(sys.stdout)) as log:
        recorder = Recorder(words)

        @contextlib.contextmanager
        def around(name: str) -> Iterator[None]:
            with recorded(recorder, name, run):
                log.begin_step(name, run)
                with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log), _said():
                    yield
                log.end_step()

        try:
            with recorder, terminated_as_interrupt():
                yield around, log.take
        except OutputLostError as error:
            raise StepError(f"{error}; the run was ended. Given: {recorder.folder or run}", error.code) from None
        except SystemExit:
            if not recorder.failed_step:
                raise
            failed = f"step {recorder.failed_step} failed, see the lines above"
            raise StepError(f"{failed}. Given: {recorder.folder}") from None


@contextlib.contextmanager
def _said() -> Iterator[None]:
    """Have whatever fails a step printed, as a process of its own would."""
    try:
        with one_line_errors():
            yield
    except Exception:
        traceback.print_exc()
        raise SystemExit(FAILED) from None
