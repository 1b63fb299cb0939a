"""The output of a run: all of it into its log file, the part for people onto the terminal."""

import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import click

from qcnn.circuits.formats.embedded import shown_within
from qcnn.cli.errors import UNREAD, OutputLostError
from qcnn.components.steps.train_progress import TrainingProgress
from qcnn.monitoring import logs

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
                self._file = (run / "log.txt").open("w", encoding="utf-8")
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
            if shown := self._for_people(logs.as_text(plain, named=True)):
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
            self._file.write(f"{shown_within(line)}\n")
            self._file.flush()

    def _for_people(self, line: str) -> str | None:
        hidden = _HIDDEN.search(line) or (self._progress.is_live and _EPOCH.search(line))
        return None if hidden else line
