"""What surrounds the steps of a run in a command: its record, its log file, and what of it is shown."""

import contextlib
import io
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import click

from qcnn.circuits.formats.embedded import with_display_names
from qcnn.cli.output import FAILED, UNREAD, OutputLostError
from qcnn.components.local_steps import Around, recorded
from qcnn.components.steps.train_local import LOADED
from qcnn.components.steps.train_progress import TrainingProgress
from qcnn.errors import ArtifactError
from qcnn.extras import check
from qcnn.jobs.local.fork_client import ForkServer, fork_server
from qcnn.jobs.local.processes import EventHandler
from qcnn.monitoring import logs
from qcnn.results.local_run import LOG, RunRecorder
from qcnn.startup import one_line_errors, terminated_as_interrupt
from qcnn.targets.errors import StepError

# What other steps load besides.
_EVALUATION = ("qcnn.results.evaluate", "qcnn.results.report")


def preload_tensorflow() -> contextlib.AbstractContextManager[ForkServer]:
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
        recorder = RunRecorder(words)

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


# Before what a step prints.
_INDENT = "    "
# TensorFlow's lines that come before any log level counts.
_HIDDEN = re.compile(r"^\s*$|\] [IW]0000 |All log messages before absl")
# Shown by the progress display where there is one.
_EPOCH = re.compile(r"\] epoch \d+/\d+: ")


class RunLog(io.TextIOBase):
    """Takes what the steps of a run print, and the events of its training."""

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self._progress = TrainingProgress(terminal)
        self._file: TextIO | None = None
        self._partial = ""
        self._lost = False

    def begin_step(self, name: str, run: Path) -> None:
        """Show that a step of the run in this folder begins, and log into that folder from now on.

        Raises:
            OutputLostError: as `write`.
        """
        with self._writing("the log"):
            if self._file is None:
                self._file = (run / LOG).open("w", encoding="utf-8")
            self._log(f"== {name}")
        with self._writing("the output"):
            self._progress.close()
            self._progress.show(f"== {name}")

    def end_step(self) -> None:
        """Take the last line of a step as whole.

        Raises:
            OutputLostError: as `write`.
        """
        if self._partial:
            self.write("\n")

    def take(self, process: str, event: Mapping[str, Any]) -> None:
        """Show an event of a training.

        Raises:
            OutputLostError: as `write`.
        """
        with self._writing("the output"):
            self._progress.handle({"process": process, **event})

    def write(self, text: str) -> int:
        """Take text as it is printed; whole lines are logged, and shown if they are for people.

        Raises:
            OutputLostError: nobody reads the output any more, or output or log cannot be written; raised once.
        """
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            plain = f"{_INDENT}{click.unstyle(line)}"
            with self._writing("the log"):
                self._log(plain)
            if shown := self._for_people(logs.to_text(plain, named=True)):
                with self._writing("the output"):
                    self._progress.show(shown)
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
    def _writing(self, what: str) -> Iterator[None]:
        """End the run if this cannot be written, once: lines that are printed while it ends must not raise again."""
        try:
            yield
        except OSError as error:
            if not self._lost:
                self._lost = True
                if isinstance(error, BrokenPipeError):
                    raise OutputLostError("nobody reads the output any more", UNREAD) from None
                raise OutputLostError(f"{what} cannot be written ({error.strerror})", 1) from None

    def _log(self, line: str) -> None:
        if self._file:
            self._file.write(f"{with_display_names(line)}\n")
            self._file.flush()

    def _for_people(self, line: str) -> str | None:
        hidden = _HIDDEN.search(line) or (self._progress.is_live and _EPOCH.search(line))
        return None if hidden else line
