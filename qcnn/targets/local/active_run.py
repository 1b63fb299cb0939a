"""A local run whose steps are recorded, logged and observed.

The record, the log file and the lock belong to the folder of the run.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from qcnn.atomic_files import writable
from qcnn.circuits.formats.embedded import with_display_names
from qcnn.errors import QcnnError, WriteError
from qcnn.monitoring import logs
from qcnn.process.error_lines import translate_limit_errors
from qcnn.process.signals import terminated_as_interrupt
from qcnn.process.standard_streams import ERROR
from qcnn.results.local_run import LOG, RunRecorder
from qcnn.targets.local.observer import Observer

logger = logging.getLogger("qcnn")

# Held while the handlers of the logger are replaced.
_HANDLERS_LOCK = threading.Lock()
# Precedes the output of a step in the log.
_INDENT = "    "
# Escape sequences of a terminal.
_STYLE = re.compile(r"\x1b\[[;?0-9]*[a-zA-Z]")


class ActiveRun:
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
                observed_step(name, self.observer),
                error_lines(self.line),
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
def recorded(
    fields: Mapping[str, Any], folder: Path, observer: Observer, earlier_epochs: Sequence[int] = ()
) -> Iterator[ActiveRun]:
    """Context manager that yields a run whose end is recorded.

    Args:
        fields: Fields of the experiment for the record.
        folder: Folder of the run.
        observer: Display.
        earlier_epochs: Numbers of epochs with which training began before, for the record.
    """
    with (
        RunRecorder(fields, earlier_epochs) as recorder,
        terminated_as_interrupt(),
        contextlib.closing(observer),
        contextlib.closing(ActiveRun(recorder, folder, observer)) as run,
    ):
        yield run


@contextlib.contextmanager
def observed_step(name: str, observer: Observer) -> Iterator[None]:
    """Context manager that passes the states of a step to an observer."""
    observer.step(name, "running")
    try:
        yield
    except Exception:
        observer.step(name, "failed")
        raise
    observer.step(name, "succeeded")


@contextlib.contextmanager
def error_lines(output: Callable[[str], None]) -> Iterator[None]:
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
    # Other threads may iterate over the handlers, so the list is replaced and not changed.
    with _HANDLERS_LOCK:
        logger.handlers = [*logger.handlers, handler]
    try:
        yield
    finally:
        with _HANDLERS_LOCK:
            logger.handlers = [each for each in logger.handlers if each is not handler]


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
