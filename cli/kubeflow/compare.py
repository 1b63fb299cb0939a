"""qcnn compare: the runs of an experiment of a backend, and of this machine, side by side."""

from pathlib import Path

import click

from cli.comparison import Table, show, table_options
from cli.kubeflow.backend import Backend, backend_options, metadata_host_option
from cli.kubeflow.experiment_runs import experiment_runs
from cli.local.past_runs import find_runs, read_run
from cli.options.runs import runs_option


@click.command()
@click.argument("names", nargs=-1, metavar="[RUN]...")
@runs_option
@click.option("--experiment", metavar="NAME", help="Compare the runs of this experiment of a Kubeflow backend.")
@metadata_host_option
@backend_options
@table_options
@click.pass_context
def compare(
    context: click.Context,
    names: tuple[str, ...],
    runs: Path,
    experiment: str | None,
    metadata_host: str | None,
    backend: Backend,
    table: Table,
) -> None:
    """Compare runs: parameters that differ, metrics, duration (seconds in CSV and JSON); all runs, newest last.

    With --experiment those of a Kubeflow backend, before the runs of this machine that are named or are in --runs.
    """
    found = experiment_runs(backend, experiment, metadata_host) if experiment else []
    if not experiment or names or context.get_parameter_source("runs") is click.core.ParameterSource.COMMANDLINE:
        found += [read_run(folder) for folder in find_runs(names, runs)]
    show(found, table, experiment or runs)
