"""qcnn schedule: management of recurring runs, each with a separate seed."""

from __future__ import annotations

import click

from qcnn.cli.options.cost import CostOptions, cost_options
from qcnn.cli.options.experiment import ExperimentOptions, experiment_options
from qcnn.cli.options.settings import OutputOptions, dry_run_option, format_option, output_options, settings_options
from qcnn.cli.output import on_stderr, show_rows, show_table
from qcnn.cli.submit import submit_prepared
from qcnn.targets.base import Schedules, TargetSettings

_HEADER = ("schedule", "id", "when", "state", "max concurrency", "catch-up", "queue")
_YES_NO = {True: "yes", False: "no", None: ""}


def schedule_command(kind: type[Schedules[TargetSettings]]) -> click.Group:
    """Return the schedule commands of a target."""
    help_text = f"Manage recurring runs in {kind.title}. Each run has a new seed."
    group = click.Group("schedule", help=help_text)
    connection_options = settings_options(kind.connection_settings, kind.name, "connection")

    @group.command()
    @output_options(kind.requests_are)
    @settings_options(kind.schedule_settings, kind.name)
    @cost_options
    @experiment_options
    def create(
        printing: OutputOptions, settings: TargetSettings, cost: CostOptions, options: ExperimentOptions
    ) -> None:
        """Create a recurring run with a new seed for each run.

        The schedule is enabled immediately. --run-name is its name and the prefix of the names of its runs. The cost
        estimate is for one run.
        """
        with kind(settings) as target:
            prepared = target.prepare_schedule(options.experiment(), settings)
            created = submit_prepared(target, prepared, cost, printing)
        if created is not None:
            page = {"look at it": created.page} if created.page else {}
            show_rows(printing.output_format, {"schedule": created.job, **page})

    @group.command("list")
    @format_option
    @connection_options
    def list_schedules(output_format: str, connection: TargetSettings) -> None:
        """List schedules with their times and states."""
        with kind(connection) as target:
            schedules = target.list_schedules()
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
            for each in schedules
        ]
        show_table(output_format, _HEADER, rows, "no schedules")

    @group.command()
    @click.argument("name", metavar="SCHEDULE")
    @dry_run_option
    @connection_options
    def enable(name: str, dry_run: bool, connection: TargetSettings) -> None:
        """Enable SCHEDULE, an ID or a name."""
        _switch(kind(connection), name, enabled=True, dry_run=dry_run)

    @group.command()
    @click.argument("name", metavar="SCHEDULE")
    @dry_run_option
    @connection_options
    def disable(name: str, dry_run: bool, connection: TargetSettings) -> None:
        """Disable SCHEDULE, an ID or a name. Active runs continue."""
        _switch(kind(connection), name, enabled=False, dry_run=dry_run)

    @group.command()
    @click.argument("name", metavar="SCHEDULE")
    @dry_run_option
    @connection_options
    def delete(name: str, dry_run: bool, connection: TargetSettings) -> None:
        """Terminate the runs of SCHEDULE, an ID or a name, and delete it."""
        with kind(connection) as target:
            if dry_run:
                display_name, runs = target.would_delete_schedule(name)
                terminated = "".join(f", its run {run} terminated" for run in runs)
                click.echo(f"schedule {display_name} would be deleted{terminated}")
                return
            click.echo(f"schedule {target.delete_schedule(name, click.echo, on_stderr)} is deleted")

    return group


def _switch(target: Schedules[TargetSettings], name: str, *, enabled: bool, dry_run: bool) -> None:
    with target:
        display_name = target.switch_schedule(name, enabled=enabled, dry_run=dry_run)
    state = "enabled" if enabled else "disabled"
    click.echo(f"schedule {display_name} {'would be' if dry_run else 'is'} {state}")
