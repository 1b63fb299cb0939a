"""Run records and progress bars of training in Python, for notebooks and terminals."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from qcnn.atomic_files import writable
from qcnn.components.local_steps import StepContext, record_run
from qcnn.components.steps.train_progress import ProgressTable, TrainingProgress
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.local.processes import EventHandler, LineHandler
from qcnn.results.local_run import FILE, LOG, RunRecorder, read_record

# Seconds between updates of a notebook cell. Each update is a message to the browser.
_INTERVAL = 0.1
_WIDTH = 110


class Bar(Protocol):
    """A progress display for training events."""

    def handle(self, event: Mapping[str, Any]) -> None:
        """Process one event."""

    def close(self) -> None:
        """Finish with the last state displayed."""


def create_bar(wanted: bool) -> Bar:
    """Return the progress display for a notebook or terminal, or an empty one unless `wanted`."""
    if not wanted:
        return _Nothing()
    # TrainingProgress displays nothing without a terminal.
    return _InNotebook() if Console().is_jupyter else TrainingProgress(sys.stdout)


class _Nothing:
    """A display without output."""

    def handle(self, event: Mapping[str, Any]) -> None:
        """Ignore one event."""

    def close(self) -> None:
        """Do nothing."""


class _InNotebook:
    """A text display below a notebook cell. Rich requires ipywidgets for this."""

    def __init__(self) -> None:
        self._console = Console(file=io.StringIO(), force_jupyter=False, color_system=None, width=_WIDTH)
        self._table = ProgressTable(self._console)
        self._cell: Any = None
        self._shown_at = 0.0

    def handle(self, event: Mapping[str, Any]) -> None:
        """Process one event."""
        self._table.take(event)
        if time.monotonic() - self._shown_at >= _INTERVAL:
            self._show()

    def close(self) -> None:
        """Display the last state below the cell."""
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


def has_succeeded(folder: Path, config: ExperimentConfig) -> bool:
    """Return whether a folder contains a succeeded run of this experiment.

    Raises:
        ArtifactError: If the folder contains other files.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    try:
        record = read_record(folder)
    except (OSError, ValueError):
        what = f"must be new or empty, or hold a run of this experiment, with {FILE}"
        raise ArtifactError(f"folder: {what}. Given: {folder}") from None
    if record.words != config.model_dump():
        raise ArtifactError(f"folder: must hold a run of this experiment, not of another. Given: {folder}")
    return record.state == "succeeded"


@dataclasses.dataclass(frozen=True)
class RunHandlers:
    """Handlers of a run: context manager of each step by name, training events, and output lines of processes."""

    step_context: StepContext
    on_event: EventHandler
    output: LineHandler


@contextlib.contextmanager
def recorded_run(config: ExperimentConfig, run: Path, *, progress: bool) -> Iterator[RunHandlers]:
    """Context manager that records the steps of a run, and writes the output of its processes to the run's log.

    Args:
        config: Experiment of the run.
        run: Folder of the run.
        progress: Whether to display a progress bar.

    Yields:
        The handlers of the run.
    """
    display = create_bar(progress)
    with RunRecorder(config.model_dump()) as recorder:

        @contextlib.contextmanager
        def step_context(name: str) -> Iterator[None]:
            with record_run(recorder, name, run), contextlib.ExitStack() as stack:
                if name == _TRAIN:
                    stack.callback(display.close)
                yield

        def on_event(process: str, event: Mapping[str, Any]) -> None:
            display.handle({"process": process, **event})

        def output(line: str) -> None:
            # Not by a redirection of stdout, which belongs to all threads of the user's process.
            with writable(run / LOG), (run / LOG).open("a", encoding="utf-8") as log:
                log.write(f"{line}\n")

        yield RunHandlers(step_context, on_event, output)
