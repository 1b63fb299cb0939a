"""A bar for every training: in a notebook and in a terminal, none elsewhere."""

import io
import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol

from rich.console import Console

from qcnn.components.steps.train_progress import ProgressTable, TrainingProgress

# Seconds between two changes of a notebook's cell: each is a message to the browser.
_INTERVAL = 0.1
_WIDTH = 110


class Bar(Protocol):
    """Shows the events of a training."""

    def handle(self, event: Mapping[str, Any]) -> None:
        """Take one event."""

    def close(self) -> None:
        """Leave the last state as it is."""


def bar(wanted: bool) -> Bar:
    """Return what shows a training where this process is looked at, or nothing where it is not `wanted`."""
    if not wanted:
        return _Nothing()
    # Shows nothing where it is no terminal.
    return _InNotebook() if Console().is_jupyter else TrainingProgress(sys.stdout)


class _Nothing:
    """Shows nothing."""

    def handle(self, event: Mapping[str, Any]) -> None:
        """Take one event."""

    def close(self) -> None:
        """Leave everything as it is."""


class _InNotebook:
    """Shows a training as text below a cell, as rich would only with the widgets of ipywidgets."""

    def __init__(self) -> None:
        self._console = Console(file=io.StringIO(), force_jupyter=False, color_system=None, width=_WIDTH)
        self._table = ProgressTable(self._console)
        self._cell: Any = None
        self._shown_at = 0.0

    def handle(self, event: Mapping[str, Any]) -> None:
        """Take one event."""
        self._table.take(event)
        if time.monotonic() - self._shown_at >= _INTERVAL:
            self._show()

    def close(self) -> None:
        """Leave the last state below the cell."""
        self._show()

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
