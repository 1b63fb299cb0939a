"""The output of a run: all of it into its log file, the part for people onto the terminal."""

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import click

from qcnn.circuits.formats.embedded import shown_within
from qcnn.cli.errors import UNREAD, OutputLostError
from qcnn.components.steps.train_local import EVENT_PREFIX
from qcnn.components.steps.train_progress import TrainingProgress
from qcnn.monitoring import logs

_STAMP = r"^\d\d:\d\d:\d\d\.\d+ - "
# Blocks of the SDK: what a step was given, and what it returned, each up to a closing line.
_BLOCKS = (
    (re.compile(r"Got executor_input:$"), re.compile(r"^    \}$")),
    (re.compile(rf"{_STAMP}.* outputs:$"), re.compile(r"^-+$")),
)
# Other lines of the SDK, and TensorFlow's that come before any log level counts.
_HIDDEN = re.compile(rf"{_STAMP}|^-*$|^\s*$|^\s*\[KFP Executor |\] [IW]0000 |All log messages before absl")
# Shown by the progress display where there is one.
_EPOCH = re.compile(r"\] epoch \d+/\d+: ")


class RunLog(io.TextIOBase):
    """Stands in for stdout while Kubeflow's local runner works; lines wait until the run has a folder."""

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self._progress = TrainingProgress(terminal)
        self._waiting: list[str] = []
        self._file: TextIO | None = None
        self._partial = ""
        self._block_end: re.Pattern[str] | None = None
        self._lost = False

    def begin_step(self, name: str, run: Path) -> None:
        """Show that a step of the run in this folder begins, and log into that folder from now on.

        Raises:
            OutputLostError: as `write`.
        """
        with self._writing("the log"):
            if self._file is None:
                self._file = (run / "log.txt").open("w", encoding="utf-8")
            self._flush()
        with self._writing("the output"):
            self._progress.close()
            self._progress.show(f"== {name}")

    def write(self, text: str) -> int:
        """Take text as it is printed; whole lines are logged, and shown if they are for people.

        Raises:
            OutputLostError: nobody reads the output any more, or output or log cannot be written; raised once.
        """
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            plain = click.unstyle(line)
            if event := self._event(plain):
                with self._writing("the output"):
                    self._progress.handle(event)
                continue
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

    @staticmethod
    def _event(line: str) -> dict[str, Any] | None:
        """Return the event that a line holds, None for any other line; a step may print what it likes."""
        if not (text := line.lstrip()).startswith(EVENT_PREFIX):
            return None
        try:
            event = json.loads(text.removeprefix(EVENT_PREFIX))
        except (ValueError, RecursionError):
            return None
        return event if isinstance(event, dict) and "event" in event else None

    def _log(self, line: str) -> None:
        self._waiting.append(shown_within(line))
        self._flush()

    def _flush(self) -> None:
        if self._file:
            self._file.writelines(f"{waiting}\n" for waiting in self._waiting)
            self._file.flush()
            self._waiting.clear()

    def _for_people(self, line: str) -> str | None:
        if self._block_end:
            if self._block_end.search(line):
                self._block_end = None
            return None
        for begin, end in _BLOCKS:
            if begin.search(line):
                self._block_end = end
                return None
        hidden = _HIDDEN.search(line) or (self._progress.is_live and _EPOCH.search(line))
        return None if hidden else line
