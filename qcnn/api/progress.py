"""What surrounds the steps of Python's calls: errors, and a bar for every training in a notebook and in a terminal."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from qcnn.components.local_steps import Around, recorded
from qcnn.components.steps.train_progress import ProgressTable, TrainingProgress
from qcnn.errors import ArtifactError
from qcnn.experiment import ExperimentConfig
from qcnn.jobs.local.processes import EventHandler
from qcnn.results.local_run import FILE, LOG, RunRecorder, read_record

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


_TRAIN = "train"


def has_ended(folder: Path, config: ExperimentConfig) -> bool:
    """Whether the run of this experiment is in a folder and has ended well.

    Raises:
        ArtifactError: the folder holds something else.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    try:
        record = read_record(folder)
    except (OSError, ValueError):
        what = f"must be new or empty, or hold a run of this experiment, with {FILE}"
        raise ArtifactError(f"folder: {what}. Given: {folder}") from None
    if record.words != config.model_dump():
        raise ArtifactError(f"folder: holds a run of another experiment. Given: {folder}")
    return record.state == "succeeded"


@contextlib.contextmanager
def surrounded(config: ExperimentConfig, run: Path, *, progress: bool) -> Iterator[tuple[Around, EventHandler]]:
    """Record the steps that are run in this block; what the processes of a training print goes into the run's log."""
    shown = bar(progress)
    with RunRecorder(config.model_dump()) as recorder:

        @contextlib.contextmanager
        def around(name: str) -> Iterator[None]:
            with recorded(recorder, name, run), contextlib.ExitStack() as stack:
                if name == _TRAIN:
                    stack.callback(shown.close)
                    log = stack.enter_context((run / LOG).open("a", encoding="utf-8"))
                    stack.enter_context(contextlib.redirect_stdout(log))
                yield

        def on_event(process: str, event: Mapping[str, Any]) -> None:
            shown.handle({"process": process, **event})

        yield around, on_event
