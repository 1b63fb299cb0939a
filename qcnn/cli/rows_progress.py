"""Shows how many rows are predicted, and how many a second: a line that is redrawn in a terminal, else nothing."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class _Speed(ProgressColumn):
    """Rows a second, of the last seconds."""

    def render(self, task: Task) -> Text:
        """Return nothing until some are done."""
        return Text(f"{task.speed:,.0f} rows/s" if task.speed else "")


@contextlib.contextmanager
def rows_progress(rows: int | None, console: Console | None = None) -> Iterator[Callable[[int], None]]:
    """Yield what is told of more rows that are done, of so many; None where nobody knows how many there are."""
    console = console or Console(stderr=True)
    columns = (TextColumn("{task.completed:,.0f} rows"), BarColumn(), _Speed(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=rows)
        yield lambda more: progress.advance(task, more)
