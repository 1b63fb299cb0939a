"""qcnn predict: predictions with what was trained, made where a target makes them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from qcnn.cli.options.settings import OutputOptions, form_option, sending_options, settings_options
from qcnn.cli.output import UNREAD, on_stderr, print_requests, show_rows, stdout_to_stderr
from qcnn.startup import RETRYABLE
from qcnn.targets.base import Predicts, SendsPredictions


def predict_command(target: Predicts) -> click.Command:
    """Return the command of a target."""

    def predict(settings: Any, form: str) -> None:
        with _own_exit_code(), stdout_to_stderr(form):
            found = target.predict(settings, click.echo, on_stderr, rows_progress)
        if form == "json":
            show_rows(form, found)

    options = settings_options(target.predict_settings, target.name)
    if not isinstance(target, SendsPredictions):
        return click.command("predict", help=target.predict_help)(options(form_option(predict)))

    def sent(settings: Any, sending: OutputOptions) -> None:
        if sending.dry_run:
            print_requests(target.predict_requests(settings), target.requests_are, sending.form)
        else:
            predict(settings, sending.form)

    return click.command("predict", help=target.predict_help)(options(sending_options(target.requests_are)(sent)))


@contextlib.contextmanager
def _own_exit_code() -> Iterator[None]:
    """End as commands do where nobody reads their output; a process of a training would be tried again."""
    try:
        yield
    except SystemExit as error:
        raise SystemExit(UNREAD if error.code == RETRYABLE else error.code) from None


class _RowsPerSecond(ProgressColumn):
    """Rows a second, of the last seconds."""

    def render(self, task: Task) -> Text:
        """Return nothing until some are done."""
        return Text(f"{task.speed:,.0f} rows/s" if task.speed else "")


@contextlib.contextmanager
def rows_progress(rows: int | None, console: Console | None = None) -> Iterator[Callable[[int], None]]:
    """Yield what is told of more rows that are done, of so many; None where nobody knows how many there are."""
    console = console or Console(stderr=True)
    columns = (TextColumn("{task.completed:,.0f} rows"), BarColumn(), _RowsPerSecond(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=rows)
        yield lambda more: progress.advance(task, more)
