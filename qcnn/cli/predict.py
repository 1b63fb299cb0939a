"""qcnn predict: predictions of a trained model on a target."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from qcnn.cli.options.settings import OutputOptions, format_option, output_options, settings_options
from qcnn.cli.output import FAILED, PIPE_CLOSED, on_stderr, print_requests, show_rows, stdout_to_stderr
from qcnn.errors import ConfigError
from qcnn.process.exit_codes import RETRYABLE
from qcnn.process.standard_streams import drop_output
from qcnn.tables import STANDARD_STREAM
from qcnn.targets import has_capability
from qcnn.targets.base import Predicts, SendsPredictions, TargetSettings


def predict_command(kind: type[Predicts[TargetSettings]]) -> click.Command:
    """Return the predict command of a target."""

    def predict(settings: Any, output_format: str) -> None:
        with kind(settings) as target:
            if settings.data is not None and settings.output in (None, STANDARD_STREAM):
                _print_predictions(target, settings, output_format)
                return
            with _without_retry_exit_code(), stdout_to_stderr(output_format):
                summary = target.predict(settings, click.echo, on_stderr, rows_progress)
        if output_format == "json":
            show_rows(output_format, summary)

    options = settings_options(kind.predict_settings, kind.name)
    if not has_capability(kind, SendsPredictions):
        return click.command("predict", help=kind.predict_help)(options(format_option(predict)))

    def predict_remotely(settings: TargetSettings, printing: OutputOptions) -> None:
        if printing.dry_run:
            with kind(settings) as target:
                print_requests(target.predict_requests(settings), kind.requests_are, printing.output_format)
        else:
            predict(settings, printing.output_format)

    return click.command("predict", help=kind.predict_help)(
        options(output_options(kind.requests_are)(predict_remotely))
    )


def _print_predictions(target: Predicts[TargetSettings], settings: TargetSettings, output_format: str) -> None:
    """Print predictions as CSV on stdout, and all other output on stderr.

    Raises:
        ConfigError: If the output format is JSON.
    """
    if output_format == "json":
        raise ConfigError("output: must be a file with format json, which prints rows and errors. Given: none")
    stdout = sys.stdout

    def report(text: str) -> None:
        try:
            stdout.write(f"{text}\n")
            stdout.flush()
        except BrokenPipeError:
            drop_output(stdout)
            # The reader has all rows that it needs, as in `| head`.
            raise SystemExit(PIPE_CLOSED) from None
        except OSError as error:
            drop_output(stdout)
            # The step that prints rows would exit with another code.
            on_stderr(f"error: output: cannot be written ({error.strerror}). Given: standard output")
            raise SystemExit(FAILED) from None

    # A progress line would be between the rows if both are on the terminal.
    console = Console(stderr=True, force_terminal=False) if stdout.isatty() else None
    with _without_retry_exit_code(), contextlib.redirect_stdout(sys.stderr):
        target.predict(settings, report, on_stderr, functools.partial(rows_progress, console=console))


@contextlib.contextmanager
def _without_retry_exit_code() -> Iterator[None]:
    """Context manager that replaces the exit code for a retry by that for a closed output pipe.

    The libraries of training processes exit with the former, because a launcher would retry them.
    """
    try:
        yield
    except SystemExit as error:
        raise SystemExit(PIPE_CLOSED if error.code == RETRYABLE else error.code) from None


class _RowsPerSecond(ProgressColumn):
    """Progress column with the current number of rows per second."""

    def render(self, task: Task) -> Text:
        """Return the speed of a task, or an empty text before it is known."""
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


@contextlib.contextmanager
def rows_progress(rows: int | None, console: Console | None = None) -> Iterator[Callable[[int], None]]:
    """Context manager that displays the progress of a prediction.

    Args:
        rows: Total number of rows, or None if it is unknown.
        console: Console of the display. None: stderr.

    Yields:
        A function that advances the display by a number of rows.
    """
    console = console or Console(stderr=True)
    # Only the bar shrinks in a narrow terminal.
    speed, left = (kind(table_column=Column(no_wrap=True)) for kind in (_RowsPerSecond, TimeRemainingColumn))
    columns = (TextColumn("{task.completed:,.0f} rows"), BarColumn(), speed, left)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=rows)
        yield lambda more: progress.advance(task, more)
