"""Training progress display: a live table in a terminal, plain lines elsewhere."""

import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

_MEASURES = ("loss {train_loss:.4f}", "val_loss {val_loss:.4f}", "{samples_per_second:.0f} samples/s")
_INDENT, _GAP = "    ", "  "
# Minimum width of the bar with the remaining time, if the measures are on the same line.
_BAR = 16


class ProgressTable:
    """Table of epoch, losses, samples per second, remaining time and worker states, which fits any terminal."""

    def __init__(self, console: Console) -> None:
        self._states: dict[str, str] = {}
        self._epoch = ""
        self._measures: list[str] = []
        epoch = TextColumn("{task.fields[epoch]}")
        # Only the bar shrinks.
        left = TimeRemainingColumn(table_column=Column(no_wrap=True))
        self._narrow: tuple[ProgressColumn, ...] = (epoch, BarColumn(), left)
        self._wide = (epoch, BarColumn(), TextColumn("{task.description}"), left)
        self._bar = Progress(console=console)
        self._task = self._bar.add_task("", total=None, visible=False, epoch="")

    def take(self, event: Mapping[str, Any]) -> None:
        """Update the table with an event."""
        if event["event"] == "state":
            self._states[event["process"]] = event["state"]
        elif event["event"] == "epoch":
            epoch, epochs = event["epoch"], event["epochs"]
            self._epoch = f"{_INDENT}epoch {epoch:.0f}/{epochs:.0f}"
            self._measures = [measure.format(**event) for measure in _MEASURES]
            description = _GAP.join(self._measures)
            self._bar.update(
                self._task, completed=epoch, total=epochs, description=description, visible=True, epoch=self._epoch
            )

    def forget_states(self) -> None:
        """Clear the worker states."""
        self._states.clear()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        is_wide = len(_GAP.join((self._epoch, *self._measures))) + _BAR <= options.max_width
        self._bar.columns = self._wide if is_wide else self._narrow
        yield self._bar
        if self._measures and not is_wide:
            yield _lines(self._measures, options.max_width)
        yield _lines([f"{name}: {state}" for name, state in sorted(self._states.items())], options.max_width)


def _lines(items: Sequence[str], width: int) -> Text:
    """Return items in indented lines of a maximum width, which break between items if possible."""
    lines = [_INDENT]
    for item in items:
        added = item if lines[-1] == _INDENT else f"{_GAP}{item}"
        if lines[-1] != _INDENT and len(lines[-1]) + len(added) > width:
            lines.append(f"{_INDENT}{item}")
        else:
            lines[-1] += added
    return Text("\n".join(lines))


class _Screen:
    """Live tables of a terminal, one below the other. Threads may display at the same time."""

    def __init__(self, terminal: TextIO) -> None:
        self.console = Console(file=terminal, highlight=False)
        # A signal handler may print while this thread does.
        self._lock = threading.RLock()
        self._tables: list[ProgressTable] = []
        self._live: Live | None = None

    def display(self, table: ProgressTable, event: Mapping[str, Any]) -> None:
        """Update a table with an event, while no other thread draws it, and display it."""
        with self._lock:
            table.take(event)
            if table not in self._tables:
                self._tables.append(table)
            if self._live is None:
                self._live = Live(
                    console=self.console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
                )
                self._live.start()
            self._live.update(Group(*self._tables), refresh=True)

    def release(self, table: ProgressTable) -> None:
        """Leave the last state of a table on the screen, above the tables that change."""
        with self._lock:
            if self._live is None or table not in self._tables:
                return
            if len(self._tables) == 1:
                live, self._live = self._live, None
                self._tables.clear()
                live.stop()
                return
            self._tables.remove(table)
            self._live.update(Group(*self._tables))
            self.console.print(table)

    def print(self, line: str) -> None:
        """Print a line, above the live tables if there are any."""
        with self._lock:
            if self._live:
                self.console.print(line, markup=False, soft_wrap=True)
            else:
                self.console.file.write(f"{line}\n")
                self.console.file.flush()


# Screens in use by the identity of their stream.
_screens: weakref.WeakValueDictionary[int, _Screen] = weakref.WeakValueDictionary()
_screens_lock = threading.Lock()


def _screen_of(terminal: TextIO) -> _Screen:
    """Return the screen of a stream, which all displays of the process share."""
    with _screens_lock:
        screen = _screens.get(id(terminal))
        if screen is None:
            screen = _screens[id(terminal)] = _Screen(terminal)
        return screen


class TrainingProgress:
    """Display of training events in a terminal."""

    def __init__(self, terminal: TextIO) -> None:
        self._screen = _screen_of(terminal)
        self._table = ProgressTable(self._screen.console)

    @property
    def is_live(self) -> bool:
        """Whether the output is a terminal that can be redrawn."""
        return self._screen.console.is_terminal

    def handle(self, event: Mapping[str, Any]) -> None:
        """Update the display with an event."""
        if self.is_live:
            self._screen.display(self._table, event)

    def show(self, line: str) -> None:
        """Print a line, above the live tables if there are any."""
        self._screen.print(line)

    def close(self) -> None:
        """Stop redrawing and leave the last state on the screen."""
        self._screen.release(self._table)
        self._table.forget_states()
