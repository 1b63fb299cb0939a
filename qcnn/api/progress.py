"""Progress of training in Python, for notebooks and terminals."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from typing_extensions import override

from qcnn.components.steps.train_progress import ProgressTable, TrainingProgress
from qcnn.targets.local.observer import Observer, trial_name

# Seconds between updates of a notebook cell. Each update is a message to the browser.
_INTERVAL = 0.1
_WIDTH = 110


def create_observer(progress: bool) -> Observer:
    """Return the observer of a run: a progress bar in a notebook or terminal, or nothing."""
    if not progress:
        return Observer()
    return NotebookObserver() if Console().is_jupyter else BarObserver()


class BarObserver(Observer):
    """Observer that displays a progress bar in a terminal, and nothing without a terminal."""

    def __init__(self, name: str = "") -> None:
        """Create an observer.

        Args:
            name: Precedes the names of processes.
        """
        self._name = name
        self._progress = TrainingProgress(sys.stdout)

    @override
    def of_trial(self, number: int) -> Observer:
        return BarObserver(trial_name(number))

    @override
    def event(self, process: str, event: Mapping[str, Any]) -> None:
        self._progress.handle({"process": f"{self._name}{process}", **event})

    @override
    def close(self) -> None:
        self._progress.close()


class NotebookObserver(Observer):
    """Observer that displays a text below a notebook cell. Rich requires ipywidgets for this."""

    def __init__(self, name: str = "") -> None:
        """Create an observer.

        Args:
            name: Precedes the names of processes.
        """
        self._name = name
        self._console = Console(file=io.StringIO(), force_jupyter=False, color_system=None, width=_WIDTH)
        self._begin()

    def _begin(self) -> None:
        self._table = ProgressTable(self._console)
        self._cell: Any = None
        self._shown_at = 0.0
        self._has_events = False

    @override
    def of_trial(self, number: int) -> Observer:
        return NotebookObserver(trial_name(number))

    @override
    def event(self, process: str, event: Mapping[str, Any]) -> None:
        self._table.take({"process": f"{self._name}{process}", **event})
        self._has_events = True
        if time.monotonic() - self._shown_at >= _INTERVAL:
            self._show()

    @override
    def close(self) -> None:
        # The next run has another text.
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
