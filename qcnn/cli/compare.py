"""qcnn compare: table and HTML page of local runs and the runs of a target's experiment."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import click

from qcnn.atomic_files import new_file
from qcnn.cli.options.experiment import complete_run
from qcnn.cli.options.settings import options_as, runs_option, settings_options
from qcnn.cli.output import format_table, on_stderr
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment.config import ALL_FIELDS
from qcnn.targets.base import ComparedRun, ComparesRuns, TargetSettings
from qcnn.targets.local.target import find_runs, read_run
from qcnn.targets.run_table import DURATION, Row, tabulate_runs

_HELP = """
Compare runs by differing fields, metrics and duration. With --experiment, include remote runs of {title}.

RUN is a local run or, with --target or settings of its connection, the name or ID of a remote run. By default, all runs
in --runs are compared, oldest first. With --experiment, local runs are included only if RUN or --runs is given.
Durations are in seconds in CSV and JSON.
"""


def compare_command(kind: type[ComparesRuns]) -> click.Command:
    """Return the compare command of a target."""

    @click.argument("names", nargs=-1, metavar="[RUN]...", shell_complete=complete_run)
    @runs_option
    @click.option("--experiment", metavar="NAME", help=f"Experiment of {kind.title} whose runs are included.")
    @table_options
    @settings_options(kind.connection_settings, kind.name, "connection")
    def compare(
        names: tuple[str, ...], runs: Path, experiment: str | None, table: TableOptions, connection: TargetSettings
    ) -> None:
        compared: list[ComparedRun] = []
        with kind(connection) as target:
            if experiment:
                compared += target.experiment_runs(experiment, on_stderr)
            source = click.get_current_context().get_parameter_source
            is_given = click.core.ParameterSource.COMMANDLINE
            if names:
                is_remote = source("target") is is_given or connection != kind.connection_settings()
                named = _named_runs(names, runs, target if is_remote or experiment else None)
                compared += [run for run in named if run not in compared]
            elif not experiment or source("runs") is is_given:
                compared += [read_run(folder) for folder in find_runs((), runs)]
        show(compared, table, experiment or runs)

    return click.command("compare", help=_HELP.format(title=kind.title))(compare)


def _named_runs(names: Sequence[str], runs: Path, target: ComparesRuns | None) -> list[ComparedRun]:
    """Return the runs with these names: local runs or, with a target, its runs of this ID or name.

    Raises:
        ArtifactError: If a run does not exist locally, without a target.
        BackendError: If a run exists neither locally nor on the target.
    """
    found: dict[str, ComparedRun] = {}
    for name in names:
        try:
            (folder,) = find_runs((name,), runs)
        except ArtifactError:
            if target is None:
                raise
        else:
            found[name] = read_run(folder)
    remote = [name for name in names if name not in found]
    if target and remote:
        found |= zip(remote, target.named_runs(remote, on_stderr), strict=True)
    return [found[name] for name in names]


@dataclasses.dataclass(frozen=True)
class TableOptions:
    """Sort column, output format and HTML page of a comparison."""

    column: str | None
    output_format: str
    page: Path | None


# Adds --sort, --format and --html to a command, and passes it `table`.
table_options = options_as(
    "table",
    TableOptions,
    click.option(
        "--sort",
        "column",
        metavar="COLUMN",
        help="Column to sort by, blanks last.  [default: order of the arguments, or age]",
    ),
    click.option(
        "--format",
        "output_format",
        type=click.Choice(["text", "csv", "json"]),
        default="text",
        show_default=True,
        help="Output format. CSV and JSON are complete and unrounded.",
    ),
    click.option(
        "--html",
        "page",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Also save an HTML page with loss curves, a sortable table and links to the reports.",
    ),
)


def show(runs: Sequence[ComparedRun], table: TableOptions, source: object) -> None:
    """Print the table of runs, and write their HTML page if it is requested.

    Args:
        runs: Runs to compare.
        table: Sort column, output format and HTML page.
        source: Experiment or folder of the runs, for the message without runs.

    Raises:
        ConfigError: If the sort column does not exist.
        ArtifactError: If the page cannot be written.
    """
    header, rows = tabulate_runs(runs)
    if table.column:
        order = sorted(range(len(rows)), key=_key(header, rows, table.column).__getitem__)
        runs, rows = [runs[index] for index in order], [rows[index] for index in order]
    if table.page:
        is_sorted = table.column is not None
        with new_file(table.page) as unfinished:
            unfinished.write_text(_page(runs, header, rows, table.page, is_sorted=is_sorted), encoding="utf-8")
    if table.output_format == "json":
        click.echo(json.dumps(rows, indent=2))
    elif table.output_format == "csv":
        click.echo(_csv(header, rows), nl=False)
    elif not rows:
        click.echo(f"no runs in {source}")
    else:
        align = ["left", "left", *["right"] * (len(header) - 2)]
        click.echo(format_table(header, _texts(header, rows), align))


def _key(header: Sequence[str], rows: Sequence[Row], column: str) -> list[tuple[bool, float, str]]:
    """Return the sort key of each row: numbers, then text, then blanks."""
    if column not in header:
        raise ConfigError(f"sort: must be one of {', '.join(header)}. Given: {column}")
    values = [row[column] for row in rows]
    return [
        (value is None, value if isinstance(value, int | float) else float("inf"), "" if value is None else str(value))
        for value in values
    ]


def _csv(header: Sequence[str], rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _texts(header: Sequence[str], rows: Sequence[Row]) -> list[list[str]]:
    return [[_text(name, row[name]) for name in header] for row in rows]


def _text(name: str, value: object) -> str:
    match value:
        case None:
            return ""
        case float() if name == DURATION:
            return str(datetime.timedelta(seconds=round(value)))
        case float() if name not in ALL_FIELDS:
            return f"{value:.0f}" if value.is_integer() else f"{value:.4f}"
    return str(value)


def _page(
    runs: Sequence[ComparedRun], header: Sequence[str], rows: Sequence[Row], path: Path, *, is_sorted: bool
) -> str:
    """Return the HTML page with the table and the loss curves of all runs.

    Args:
        runs: Runs to compare.
        header: Names of the columns.
        rows: Row of each run.
        path: Path of the page, to which the paths of reports are relative.
        is_sorted: Whether to keep the order of the runs. By default, the best run is first.
    """
    # Importing Matplotlib takes longer than the rest of the command.
    from qcnn.results import comparison, html, plots

    differing = [name for name in header if name in ALL_FIELDS]
    fields = comparison.independent_fields(differing, [run.parameters for run in runs if run.parameters])
    losses = [_validation_loss(run) for run in runs]
    order = range(len(runs)) if is_sorted else comparison.order_by_loss(losses)
    runs, rows = [runs[index] for index in order], [rows[index] for index in order]
    compared = [
        comparison.ComparedRow(
            values=row,
            texts={name: _text(name, row[name]) for name in header},
            fields={name: row[name] for name in fields},
            loss=_validation_loss(run),
            rank=_validation_loss(run),
            report=_relative_url(run.report, path),
        )
        for run, row in zip(runs, rows, strict=True)
    ]
    colors = comparison.colors_by_loss([row.loss for row in compared])
    names = list(dict.fromkeys(plots.LOSSES[_loss(run)] for run in runs))
    caption = f"{' or '.join(names).capitalize()} of every epoch. {comparison.color_note(len(runs))}"
    curves = {
        "Training loss": [[epoch.train_loss for epoch in run.history] for run in runs],
        "Validation loss": [[epoch.val_loss for epoch in run.history] for run in runs],
    }
    figures = [
        html.ReportFigure(
            title, plots.to_svg(plots.loss_curves(losses, colors, loss_name=" or ".join(names)), title), caption
        )
        for title, losses in curves.items()
    ]
    parts = [html.heading("Runs"), comparison.table(header, compared)]
    parts += [html.heading("Loss"), html.columns(map(html.figure, figures))]
    if by_field := comparison.field_figures(compared):
        parts += [html.heading("Validation loss by field"), html.columns(map(html.figure, by_field))]
    return html.document("Runs compared", f"{len(runs)} runs; a click on a column sorts by it", parts, sortable=True)


def _validation_loss(run: ComparedRun) -> float | None:
    """Return the validation loss of the exported weights, or the lowest one so far of a run without metrics."""
    return run.metrics.get("val_loss", min((epoch.val_loss for epoch in run.history), default=None))


def _loss(run: ComparedRun) -> str:
    """Return the loss of a run. Runs with the default do not record it."""
    return str(run.parameters.get("loss", ALL_FIELDS["loss"].default))


def _relative_url(report: Path | None, page: Path) -> str:
    """Return the URL of a run's report relative to a page, or an empty text if it does not exist."""
    return quote(Path(os.path.relpath(report, page.parent)).as_posix()) if report else ""
