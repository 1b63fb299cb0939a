"""Makes the command qcnn compare of a target: runs of an experiment there, and of this machine, side by side."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from qcnn.cli.local.saved_runs import find_runs, read_run
from qcnn.cli.options.base import Decorator
from qcnn.cli.options.experiment import complete_run
from qcnn.cli.options.settings import runs_option
from qcnn.cli.run_table import Run, Table, show, table_options


def compare_command(place: str, experiment_runs: Callable[..., list[Run]], *options: Decorator) -> click.Command:
    """Return the command for a target's `place`, whose options it has.

    `experiment_runs` is given the name of an experiment and what these options make, and returns its runs, newest last.
    """

    @click.argument("names", nargs=-1, metavar="[RUN]...", shell_complete=complete_run)
    @runs_option
    @click.option("--experiment", metavar="NAME", help=f"Compare the runs of this experiment of {place}.")
    @table_options
    def compare(
        names: tuple[str, ...],
        runs: Path,
        experiment: str | None,
        table: Table,
        **of_target: Any,
    ) -> None:
        found = experiment_runs(experiment, **of_target) if experiment else []
        is_named = click.get_current_context().get_parameter_source("runs") is click.core.ParameterSource.COMMANDLINE
        if not experiment or names or is_named:
            found += [read_run(folder) for folder in find_runs(names, runs)]
        show(found, table, experiment or runs)

    for option in reversed(options):
        compare = option(compare)
    return click.command(name="compare", help=_HELP.format(place=place))(compare)


_HELP = """
Compare runs: parameters that differ, metrics, duration (seconds in CSV and JSON); all runs, newest last.

With --experiment those of {place}, before the runs of this machine that are named or are in --runs.
"""
