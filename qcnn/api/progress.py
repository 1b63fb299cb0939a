"""Progress of training in Python, for notebooks and terminals."""

from __future__ import annotations

import io
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from qcnn.components.steps.train_progress import ProgressTable, TrainingProgress
from qcnn.targets.local.observer import Observer, StepState

logger = logging.getLogger("qcnn")

# Seconds between updates of a notebook cell. Each update is a message to the browser.
_INTERVAL = 0.1
_WIDTH = 110


def create_observer(progress: bool) -> Observer:
    """Return the observer of a run: a progress bar in a notebook or terminal, or nothing."""
    if not progress:
        return SilentObserver()
    return NotebookObserver() if Console().is_jupyter else BarObserver()


class SilentObserver:
    """Observer that displays nothing but warnings."""

    def warn(self, line: str) -> None:
        """Log a warning."""
        logger.warning(line)

    def trial(self, number: int, count: int, *, is_trained: bool) -> None:
        """Display nothing."""

    def step(self, name: str, state: StepState) -> None:
        """Display nothing."""

    def line(self, text: str) -> None:
        """Display nothing."""

    def event(self, process: str, event: Mapping[str, Any]) -> None:
        """Display nothing."""

    def close(self) -> None:
        """Do nothing."""


class BarObserver(SilentObserver):
    """Observer that displays a progress bar in a terminal, and nothing without a terminal."""

    def __init__(self) -> None:
        self._progress = TrainingProgress(sys.stdout)

    def event(self, process: str, event: Mapping[str, Any]) -> None:
        """Update the bar."""
        self._progress.handle({"process": process, **event})

    def close(self) -> None:
        """Finish with the last state displayed."""
        self._progress.close()


class NotebookObserver(SilentObserver):
    """Observer that displays a text below a notebook cell. Rich requires ipywidgets for this."""

    def __init__(self) -> None:
        self._console = Console(file=io.StringIO(), force_jupyter=False, color_system=None, width=_WIDTH)
        self._begin()

    def _begin(self) -> None:
        self._table = ProgressTable(self._console)
        self._cell: Any = None
        self._shown_at = 0.0
        self._has_events = False

    def event(self, process: str, event: Mapping[str, Any]) -> None:
        """Update the text."""
        self._table.take({"process": process, **event})
        self._has_events = True
        if time.monotonic() - self._shown_at >= _INTERVAL:
            self._show()

    def close(self) -> None:
        """Finish with the last state displayed. The next run has another text."""
        if self._has_events:
            self._show()
        self._begin()

    def _show(self) -> None:
        from IPython.display import display

        with self._console.capture() as captured:
            self._console.print(self._table)
        text = {"text/plain": "\n".join(line.rstrip() for line in captured.get().splitlines())}
        if self._cell is None:
            self._cell = display(text, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._cell.update(text, raw=True)
        self._shown_at = time.monotonic()
