"""Training progress display: a live table in a terminal, plain lines elsewhere."""

from collections.abc import Mapping
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

_MEASURES = "loss {train_loss:.4f}  val_loss {val_loss:.4f}  {samples_per_second:.0f} samples/s"


class ProgressTable:
    """Table of epoch, losses, samples per second, remaining time and worker states."""

    def __init__(self, console: Console) -> None:
        self._states: dict[str, str] = {}
        self._bar = Progress(
            TextColumn("    epoch {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task("", total=None, visible=False)

    def take(self, event: Mapping[str, Any]) -> None:
        """Update the table with an event."""
        if event["event"] == "state":
            self._states[event["process"]] = event["state"]
        elif event["event"] == "epoch":
            measures = _MEASURES.format(**event)
            self._bar.update(
                self._task, completed=event["epoch"], total=event["epochs"], description=measures, visible=True
            )

    def forget_states(self) -> None:
        """Clear the worker states."""
        self._states.clear()

    def __rich__(self) -> Group:
        workers = "  ".join(f"{name}: {state}" for name, state in sorted(self._states.items()))
        return Group(self._bar, Text(f"    {workers}"))


class TrainingProgress:
    """Display of training events in a terminal."""

    def __init__(self, terminal: TextIO) -> None:
        self._console = Console(file=terminal, highlight=False)
        self._table = ProgressTable(self._console)
        self._live: Live | None = None

    @property
    def is_live(self) -> bool:
        """Whether the output is a terminal that can be redrawn."""
        return self._console.is_terminal

    def handle(self, event: Mapping[str, Any]) -> None:
        """Update the display with an event."""
        if not self.is_live:
            return
        self._table.take(event)
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
            self._live.start()
        self._live.update(self._table, refresh=True)

    def show(self, line: str) -> None:
        """Print a line, above the live table if it is displayed."""
        if self._live:
            self._console.print(line, markup=False, soft_wrap=True)
        else:
            self._console.file.write(f"{line}\n")
            self._console.file.flush()

    def close(self) -> None:
        """Stop redrawing and leave the last state on the screen."""
        if self._live:
            self._live.stop()
            self._live = None
            self._table.forget_states()
