"""qcnn compare: runs of an experiment of a target, and of this machine, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from qcnn.cli.options.experiment import complete_run
from qcnn.cli.options.settings import runs_option, settings_options
from qcnn.cli.output import on_stderr
from qcnn.cli.run_table import Table, show, table_options
from qcnn.targets.base import ComparedRun, ComparesRuns
from qcnn.targets.local.saved_runs import find_runs, read_run

_HELP = """
Compare runs: parameters that differ, metrics, duration (seconds in CSV and JSON); all runs, newest last.

With --experiment those of {title}, before the runs of this machine that are named or are in --runs.
"""


def compare_command(target: ComparesRuns) -> click.Command:
    """Return the command of a target."""

    @click.argument("names", nargs=-1, metavar="[RUN]...", shell_complete=complete_run)
    @runs_option
    @click.option("--experiment", metavar="NAME", help=f"Compare the runs of this experiment of {target.title}.")
    @table_options
    @settings_options(target.connection, target.name, "connection")
    def compare(names: tuple[str, ...], runs: Path, experiment: str | None, table: Table, connection: Any) -> None:
        found: list[ComparedRun] = []
        if experiment:
            found += target.experiment_runs(experiment, connection, on_stderr)
        is_named = click.get_current_context().get_parameter_source("runs") is click.core.ParameterSource.COMMANDLINE
        if not experiment or names or is_named:
            found += [read_run(folder) for folder in find_runs(names, runs)]
        show(found, table, experiment or runs)

    return click.command("compare", help=_HELP.format(title=target.title))(compare)
