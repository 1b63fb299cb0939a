"""Display of local runs in a terminal or on standard output."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from typing_extensions import override

from qcnn.cli.output import PIPE_CLOSED, OutputLostError, on_stderr
from qcnn.components.steps.train_progress import TrainingProgress
from qcnn.errors import WriteError
from qcnn.monitoring import logs
from qcnn.targets.errors import StepError
from qcnn.targets.local.observer import Observer, StepState, trial_name

# Precedes the output of a step.
_INDENT = "    "
# Lines that TensorFlow prints before it applies the log level.
_HIDDEN = re.compile(r"^\s*$|\] [IW]0000 |All log messages before absl")
# Contained in the progress display, if there is one.
_EPOCH = re.compile(r"\] epoch \d+/\d+: ")


class TerminalObserver(Observer):
    """Observer that prints the steps and lines of runs, and displays progress in a terminal.

    Attributes:
        failed_step: Name of the step that has failed, or None.
    """

    def __init__(self, terminal: TextIO, name: str = "", study: TerminalObserver | None = None) -> None:
        """Create an observer.

        Args:
            terminal: Where it prints.
            name: Precedes each line and the names of processes.
            study: Observer of the study, whose `failed_step` is that of its trials.
        """
        self.failed_step: str | None = None
        self._terminal, self._name, self._study = terminal, name, study
        self._progress = TrainingProgress(terminal)
        self._has_failed = False
        # Messages about the progress of a step.
        logging.getLogger("qcnn").setLevel(logging.INFO)

    @override
    def warn(self, line: str) -> None:
        on_stderr(line)

    @override
    def trial(self, number: int, count: int, *, is_trained: bool) -> None:
        self._show(f"== trial {number}, {number + 1} of {count}")
        if is_trained:
            self._show("already trained")

    @override
    def of_trial(self, number: int) -> Observer:
        return TerminalObserver(self._terminal, trial_name(number), self)

    @override
    def step(self, name: str, state: StepState) -> None:
        if state == "running":
            self.failed_step = None
            if self._study:
                self._study.failed_step = None
            with self._writing():
                self._progress.close()
            self._show(f"== {name}")
        elif state == "failed":
            self.failed_step = name
            if self._study:
                self._study.failed_step = name

    @override
    def line(self, text: str) -> None:
        line = logs.to_text(f"{_INDENT}{text}", named=True)
        if not _HIDDEN.search(line) and not (self._progress.is_live and _EPOCH.search(line)):
            self._show(line)

    @override
    def event(self, process: str, event: Mapping[str, Any]) -> None:
        with self._writing():
            self._progress.handle({"process": f"{self._name}{process}", **event})

    @override
    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._progress.close()

    def _show(self, line: str) -> None:
        with self._writing():
            self._progress.show(f"{self._name}{line}")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Context manager that raises OutputLostError once, so that lines printed afterwards do not raise again."""
        try:
            yield
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                if isinstance(error, BrokenPipeError):
                    raise OutputLostError("output pipe closed", PIPE_CLOSED) from None
                raise OutputLostError(f"the output cannot be written ({error.strerror})", 1) from None


@contextlib.contextmanager
def terminal(folder: Path) -> Iterator[TerminalObserver]:
    """Context manager that yields an observer on the current stdout, and raises the error of the command.

    Args:
        folder: Folder of the run or study.

    Raises:
        StepError: If a step fails, or if the output cannot be written.
    """
    observer = TerminalObserver(sys.stdout)
    try:
        yield observer
    except OutputLostError as error:
        raise StepError(f"{error}; the run was terminated. Given: {folder}", error.code) from None
    except Exception:
        if observer.failed_step is None:
            raise
        raise StepError(f"step {observer.failed_step} failed, see the lines above. Given: {folder}") from None


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
