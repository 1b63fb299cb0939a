"""qcnn schedule: an experiment again and again, each run with a seed of its own."""

from __future__ import annotations

from typing import Any

import click

from qcnn.cli.options.cost import CostOptions, cost_options
from qcnn.cli.options.experiment import ExperimentOptions, experiment_options
from qcnn.cli.options.settings import OutputOptions, form_option, sending_options, settings_options, shown_only_option
from qcnn.cli.output import on_stderr, show_rows, show_table
from qcnn.cli.submit import submitted
from qcnn.targets.base import Schedules

_HEADER = ("schedule", "id", "when", "state", "max concurrency", "catch-up", "queue")
_SHOWN = {True: "yes", False: "no", None: ""}


def schedule_command(target: Schedules) -> click.Group:
    """Return the commands of a target."""
    help_text = f"Run an experiment again and again in {target.title}, each time with a seed of its own."
    group = click.Group("schedule", help=help_text)
    connection_options = settings_options(target.connection, target.name, "connection")

    @group.command()
    @sending_options(target.requests_are)
    @settings_options(target.schedule_settings, target.name)
    @cost_options
    @experiment_options
    def create(sending: OutputOptions, settings: Any, cost: CostOptions, words: ExperimentOptions) -> None:
        """Create a schedule, which is enabled at once; --run-name is its name, with which those of its runs begin."""
        experiment = words.experiment()
        prepared = target.prepare_schedule(experiment, settings)
        # The cost is that of each run.
        made = submitted(target, prepared, cost, [experiment], sending)
        if made is not None:
            show_rows(sending.form, {"schedule": made.job, "look at it": made.page})

    @group.command("list")
    @form_option
    @connection_options
    def list_schedules(form: str, connection: Any) -> None:
        """List all schedules: when they run, and whether they do."""
        rows = [
            (
                each.name,
                each.schedule,
                each.when,
                each.state,
                each.max_concurrency,
                _SHOWN[each.catch_up],
                _SHOWN[each.queue],
            )
            for each in target.list_schedules(connection)
        ]
        show_table(form, _HEADER, rows, "no schedules")

    @group.command()
    @click.argument("name", metavar="SCHEDULE")
    @shown_only_option
    @connection_options
    def enable(name: str, dry_run: bool, connection: Any) -> None:
        """Enable SCHEDULE, by its id or name."""
        _switch(target, name, connection, enabled=True, dry_run=dry_run)

    @group.command()
    @click.argument("name", metavar="SCHEDULE")
    @shown_only_option
    @connection_options
    def disable(name: str, dry_run: bool, connection: Any) -> None:
        """Disable SCHEDULE, by its id or name; runs that have begun go on."""
        _switch(target, name, connection, enabled=False, dry_run=dry_run)

    @group.command()
    @click.argument("name", metavar="SCHEDULE")
    @shown_only_option
    @connection_options
    def delete(name: str, dry_run: bool, connection: Any) -> None:
        """Delete SCHEDULE, by its id or name, after its runs have been terminated, as by `qcnn terminate`."""
        if dry_run:
            shown_name, runs = target.would_delete_schedule(name, connection)
            ended = "".join(f", its run {run} terminated" for run in runs)
            click.echo(f"schedule {shown_name} would be deleted{ended}")
            return
        click.echo(f"schedule {target.delete_schedule(name, connection, click.echo, on_stderr)} is deleted")

    return group


def _switch(target: Schedules, name: str, connection: Any, *, enabled: bool, dry_run: bool) -> None:
    shown_name = target.switch_schedule(name, connection, enabled=enabled, dry_run=dry_run)
    state = "enabled" if enabled else "disabled"
    click.echo(f"schedule {shown_name} {'would be' if dry_run else 'is'} {state}")
