"""Hooks around the steps of a local run: its record, its log file and its terminal output."""

import contextlib
import io
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import click

from qcnn.circuits.formats.embedded import with_display_names
from qcnn.cli.output import FAILED, PIPE_CLOSED, OutputLostError
from qcnn.components.local_steps import STEP_MODULES, StepContext, record_run
from qcnn.components.steps.train_progress import TrainingProgress
from qcnn.errors import WriteError
from qcnn.jobs.local.fork_client import ForkServer, fork_server
from qcnn.jobs.local.processes import EventHandler
from qcnn.monitoring import logs
from qcnn.process.error_lines import one_line_errors
from qcnn.process.extras import check
from qcnn.process.signals import terminated_as_interrupt
from qcnn.results.local_run import LOG, RunRecorder
from qcnn.targets.errors import StepError


def preload_tensorflow() -> contextlib.AbstractContextManager[ForkServer]:
    """Return a context manager whose fork server has imported TensorFlow for the processes of runs."""
    check("run")
    return fork_server(STEP_MODULES)


def writable_folder(runs: Path) -> Path:
    """Create the folder of runs, check that it is writable and return its absolute path.

    Raises:
        WriteError: If it cannot be written.
    """
    root = runs.absolute()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        raise WriteError(f"runs: the folder cannot be written ({error.strerror}). Given: {runs}") from None
    return root


@contextlib.contextmanager
def step_hooks(
    fields: Mapping[str, Any], run: Path, earlier_epochs: Sequence[int] = ()
) -> Iterator[tuple[StepContext, EventHandler]]:
    """Context manager that records, logs and prints the steps of a run.

    Args:
        fields: Fields of the experiment, for the record.
        run: Folder of the run.
        earlier_epochs: Numbers of epochs with which training began before, for the record.

    Yields:
        The context manager around each step, and the handler of training events.

    Raises:
        StepError: If a step fails, or if the output or the log cannot be written.
    """
    with contextlib.closing(RunLog(sys.stdout)) as log:
        recorder = RunRecorder(fields, earlier_epochs)

        @contextlib.contextmanager
        def step_context(name: str) -> Iterator[None]:
            with record_run(recorder, name, run):
                log.begin_step(name, run)
                with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log), _printed_errors():
                    yield
                log.end_step()

        try:
            with recorder, terminated_as_interrupt():
                yield step_context, log.take
        except OutputLostError as error:
            raise StepError(f"{error}; the run was terminated. Given: {recorder.folder or run}", error.code) from None
        except SystemExit:
            if not recorder.failed_step:
                raise
            failed = f"step {recorder.failed_step} failed, see the lines above"
            raise StepError(f"{failed}. Given: {recorder.folder}") from None


@contextlib.contextmanager
def _printed_errors() -> Iterator[None]:
    """Context manager that prints the error of a step, as a separate process would."""
    try:
        with one_line_errors():
            yield
    except Exception:
        traceback.print_exc()
        raise SystemExit(FAILED) from None


# Precedes the output of a step.
_INDENT = "    "
# Lines that TensorFlow prints before it applies the log level.
_HIDDEN = re.compile(r"^\s*$|\] [IW]0000 |All log messages before absl")
# Contained in the progress display, if there is one.
_EPOCH = re.compile(r"\] epoch \d+/\d+: ")


class RunLog(io.TextIOBase):
    """Text stream for the output of a run's steps, and handler of its training events."""

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self._progress = TrainingProgress(terminal)
        self._file: TextIO | None = None
        self._partial = ""
        self._has_failed = False

    def begin_step(self, name: str, run: Path) -> None:
        """Print the start of a step, and open the log in the folder of the run on first use.

        Raises:
            OutputLostError: If the output or the log cannot be written.
        """
        with self._writing("the log"):
            if self._file is None:
                self._file = (run / LOG).open("a", encoding="utf-8")
            self._log(f"== {name}")
        with self._writing("the output"):
            self._progress.close()
            self._progress.show(f"== {name}")

    def end_step(self) -> None:
        """Write the last line of a step, even without a line break.

        Raises:
            OutputLostError: If the output or the log cannot be written.
        """
        if self._partial:
            self.write("\n")

    def take(self, process: str, event: Mapping[str, Any]) -> None:
        """Print an event of a training run.

        Raises:
            OutputLostError: If the output cannot be written.
        """
        with self._writing("the output"):
            self._progress.handle({"process": process, **event})

    def write(self, text: str) -> int:
        """Log complete lines of text, and print those that are not hidden.

        Raises:
            OutputLostError: If the output or the log cannot be written. It is raised once.
        """
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            plain = f"{_INDENT}{click.unstyle(line)}"
            with self._writing("the log"):
                self._log(plain)
            if visible := self._visible(logs.to_text(plain, named=True)):
                with self._writing("the output"):
                    self._progress.show(visible)
        return len(text)

    def close(self) -> None:
        """Close the log file and the progress display."""
        with contextlib.suppress(OSError):
            self._progress.close()
        with contextlib.suppress(OSError):
            if self._file:
                self._file.close()
        super().close()

    @contextlib.contextmanager
    def _writing(self, destination: str) -> Iterator[None]:
        """Context manager that raises OutputLostError once, so that lines printed afterwards do not raise again."""
        try:
            yield
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                if isinstance(error, BrokenPipeError):
                    raise OutputLostError("output pipe closed", PIPE_CLOSED) from None
                raise OutputLostError(f"{destination} cannot be written ({error.strerror})", 1) from None

    def _log(self, line: str) -> None:
        if self._file:
            self._file.write(f"{with_display_names(line)}\n")
            self._file.flush()

    def _visible(self, line: str) -> str | None:
        hidden = _HIDDEN.search(line) or (self._progress.is_live and _EPOCH.search(line))
        return None if hidden else line
