"""qcnn schedule: an experiment again and again, each run with a seed of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from qcnn.cli.options.cost import Cost, check_package_cost, cost_options
from qcnn.cli.options.cron import cron_expression, interval_seconds
from qcnn.cli.options.experiment import Words, experiment_options
from qcnn.cli.options.form import Sending, form_option, sending_options, show_rows, show_table, shown_only_option
from qcnn.cli.options.kubeflow_submission import submission_options
from qcnn.cli.options.settings import backend_options, source_options
from qcnn.errors import ConfigError
from qcnn.targets.compiled_pipeline import Source, check_arguments, main_arguments, read_package, scheduled
from qcnn.targets.kubeflow.client import Backend, connect, explained
from qcnn.targets.kubeflow.runs import ENDED, find_schedule, namespace_of, pages
from qcnn.targets.kubeflow.submission import Submission, request
from qcnn.targets.kubeflow.termination import end_run
from qcnn.targets.library_output import quiet

if TYPE_CHECKING:
    import kfp
    import kfp_server_api


@click.group()
def schedule() -> None:
    """Run an experiment again and again in a Kubeflow backend, each time with a seed of its own."""


@schedule.command()
@click.option("--cron", metavar="FIELDS", help='When, by the backend\'s clock, such as "0 9 * * MON-FRI".')
@click.option("--interval", metavar="TIME", help="How often, such as 90s, 10m, 2h or 1d.")
@click.option(
    "--max-concurrency", type=click.IntRange(1, 10), default=1, show_default=True, help="Runs at the same time."
)
@click.option("--catch-up", is_flag=True, help="Make up for missed times.")
@click.option("--disabled", is_flag=True, help="Create it disabled, until `qcnn schedule enable`.")
@sending_options
@backend_options
@source_options
@submission_options
@cost_options
@experiment_options
def create(
    cron: str | None,
    interval: str | None,
    max_concurrency: int,
    catch_up: bool,
    disabled: bool,
    sending: Sending,
    backend: Backend,
    source: Source,
    submission: Submission,
    cost: Cost,
    words: Words,
) -> None:
    """Create a schedule, which is enabled at once; --run-name is its name, with which those of its runs begin."""
    if bool(cron) == bool(interval):
        raise ConfigError(f"schedule: needs either --cron or --interval. Given: {'both' if cron else 'none'}")
    # Integers as text, as the API has those of 64 bits.
    times = {"interval_second": str(interval_seconds(interval))} if interval else {}
    if cron:
        times = {"cron_expression": cron_expression(cron)}
    experiment = words.experiment()
    name = submission.run_name or submission.experiment
    arguments = main_arguments(experiment, seeded_by_run=True)
    with scheduled(source, "kubeflow") as package:
        documents = read_package(package, "kubeflow")
        check_arguments(documents[0], arguments)
        if sending.dry_run:
            run = request(documents, arguments, name, backend, submission)
            how = {"max_concurrency": max_concurrency, "no_catchup": not catch_up, "enabled": not disabled}
            click.echo(json.dumps({**run, **times, **how}, indent=2))
            return
        client = connect(backend)
        # Of each run.
        check_package_cost(cost, "kubeflow", documents[0], [experiment])
        with explained(backend.address), quiet():
            owner = client.create_experiment(submission.experiment, namespace=backend.namespace)
            made = client.create_recurring_run(
                experiment_id=owner.experiment_id,
                job_name=name,
                pipeline_package_path=str(package),
                params=arguments,
                pipeline_root=submission.pipeline_root,
                enable_caching=submission.caching,
                service_account=submission.service_account,
                max_concurrency=str(max_concurrency),
                no_catchup=not catch_up,
                enabled=not disabled,
                **times,
            )
    identity = made.recurring_run_id
    show_rows(sending.form, {"schedule": identity, "look at it": backend.page(f"recurringrun/details/{identity}")})


@schedule.command("list")
@form_option
@backend_options
def list_schedules(form: str, backend: Backend) -> None:
    """List all schedules: when they run, and whether they do."""
    client = connect(backend)
    with explained(backend.address):
        found = list(pages(client.list_recurring_runs, "recurring_runs", namespace=backend.namespace))
    rows = [
        (
            each.display_name,
            each.recurring_run_id,
            _when(each.trigger),
            str(each.status or each.mode).lower(),
            each.max_concurrency,
            "no" if each.no_catchup else "yes",
        )
        for each in found
    ]
    header = ("schedule", "id", "when", "state", "max concurrency", "catch-up")
    show_table(form, header, rows, "no schedules")


@schedule.command()
@click.argument("name", metavar="SCHEDULE")
@shown_only_option
@backend_options
def enable(name: str, dry_run: bool, backend: Backend) -> None:
    """Enable SCHEDULE, by its id or name."""
    _change(name, backend, lambda client, identity: client.enable_recurring_run(identity), "enabled", dry_run)


@schedule.command()
@click.argument("name", metavar="SCHEDULE")
@shown_only_option
@backend_options
def disable(name: str, dry_run: bool, backend: Backend) -> None:
    """Disable SCHEDULE, by its id or name; runs that have begun go on."""
    _change(name, backend, lambda client, identity: client.disable_recurring_run(identity), "disabled", dry_run)


@schedule.command()
@click.argument("name", metavar="SCHEDULE")
@shown_only_option
@backend_options
def delete(name: str, dry_run: bool, backend: Backend) -> None:
    """Delete SCHEDULE, by its id or name, after its runs have been terminated, as by `qcnn terminate`."""
    client = connect(backend)
    found = find_schedule(client, backend, name)
    with explained(backend.address):
        if not dry_run:
            # A backend that has deleted a schedule no longer notices how its runs end.
            client.disable_recurring_run(found.recurring_run_id)
        runs = list(pages(client.list_runs, "runs", experiment_id=found.experiment_id))
    namespace = namespace_of(client, backend, found.experiment_id)
    alive = [run for run in runs if run.recurring_run_id == found.recurring_run_id and run.state not in ENDED]
    if dry_run:
        ended = "".join(f", its run {run.display_name} terminated" for run in alive)
        click.echo(f"schedule {found.display_name} would be deleted{ended}")
        return
    for run in alive:
        click.echo(f"terminating {run.display_name}")
        if reason := end_run(client, backend, run, namespace, click.echo):
            click.echo(reason, err=True)
    with explained(backend.address):
        client.delete_recurring_run(found.recurring_run_id)
    click.echo(f"schedule {found.display_name} is deleted")


def _change(
    name: str, backend: Backend, request: Callable[[kfp.Client, str], object], state: str, dry_run: bool
) -> None:
    """Make a request about a schedule, by its id or name, and print its new state; or only what that would be."""
    client = connect(backend)
    found = find_schedule(client, backend, name)
    if dry_run:
        click.echo(f"schedule {found.display_name} would be {state}")
        return
    with explained(backend.address):
        request(client, found.recurring_run_id)
    click.echo(f"schedule {found.display_name} is {state}")


def _when(trigger: kfp_server_api.V2beta1Trigger | None) -> str:
    if trigger and trigger.cron_schedule:
        return str(trigger.cron_schedule.cron)
    if trigger and trigger.periodic_schedule:
        return f"every {trigger.periodic_schedule.interval_second} s"
    return ""
