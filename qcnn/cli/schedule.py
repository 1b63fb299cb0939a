"""qcnn schedule: management of recurring runs, each with a separate seed."""

from __future__ import annotations

from typing import Any

import click

from qcnn.cli.options.cost import CostOptions, cost_options
from qcnn.cli.options.experiment import ExperimentOptions, experiment_options
from qcnn.cli.options.settings import OutputOptions, dry_run_option, format_option, output_options, settings_options
from qcnn.cli.output import on_stderr, show_rows, show_table
from qcnn.cli.submit import submit_prepared
from qcnn.targets.base import Schedules

_HEADER = ("schedule", "id", "when", "state", "max concurrency", "catch-up", "queue")
_YES_NO = {True: "yes", False: "no", None: ""}


def schedule_command(target: Schedules) -> click.Group:
    """Return the schedule commands of a target."""
    help_text = f"Manage recurring runs in {target.title}. Each run has a new seed."
    group = click.Group("schedule", help=help_text)
    connection_options = settings_options(target.connection, target.name, "connection")

    @group.command()
    @output_options(target.requests_are)
    @settings_options(target.schedule_settings, target.name)
    @cost_options
    @experiment_options
    def create(printing: OutputOptions, settings: Any, cost: CostOptions, options: ExperimentOptions) -> None:
        """Create a recurring run with a new seed for each run.

        The schedule is enabled immediately. --run-name is its name and the prefix of the names of its runs. The cost
        estimate is for one run.
        """
        prepared = target.prepare_schedule(options.experiment(), settings)
        created = submit_prepared(target, prepared, cost, printing)
        if created is not None:
            page = {"look at it": created.page} if created.page else {}
            show_rows(printing.output_format, {"schedule": created.job, **page})

    @group.command("list")
    @format_option
    @connection_options
    def list_schedules(output_format: str, connection: Any) -> None:
        """List schedules with their times and states."""
        rows = [
            (
                each.name,
                each.schedule,
                each.when,
                each.state,
                each.max_concurrency,
                _YES_NO[each.catch_up],
                _YES_NO[each.queue],
            )
            for each in target.list_schedules(connection)
        ]
        show_table(output_format, _HEADER, rows, "no schedules")

    @group.command()
    @click.argument("name", metavar="SCHEDULE")
    @dry_run_option
    @connection_options
    def enable(name: str, dry_run: bool, connection: Any) -> None:
        """Enable SCHEDULE, an ID or a name."""
        _switch(target, name, connection, enabled=True, dry_run=dry_run)

    @group.command()
    @click.argument("name", metavar="SCHEDULE")
    @dry_run_option
    @connection_options
    def disable(name: str, dry_run: bool, connection: Any) -> None:
        """Disable SCHEDULE, an ID or a name. Active runs continue."""
        _switch(target, name, connection, enabled=False, dry_run=dry_run)

    @group.command()
    @click.argument("name", metavar="SCHEDULE")
    @dry_run_option
    @connection_options
    def delete(name: str, dry_run: bool, connection: Any) -> None:
        """Terminate the runs of SCHEDULE, an ID or a name, and delete it."""
        if dry_run:
            display_name, runs = target.would_delete_schedule(name, connection)
            terminated = "".join(f", its run {run} terminated" for run in runs)
            click.echo(f"schedule {display_name} would be deleted{terminated}")
            return
        click.echo(f"schedule {target.delete_schedule(name, connection, click.echo, on_stderr)} is deleted")

    return group


def _switch(target: Schedules, name: str, connection: Any, *, enabled: bool, dry_run: bool) -> None:
    display_name = target.switch_schedule(name, connection, enabled=enabled, dry_run=dry_run)
    state = "enabled" if enabled else "disabled"
    click.echo(f"schedule {display_name} {'would be' if dry_run else 'is'} {state}")
