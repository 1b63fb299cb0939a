"""qcnn schedule --target vertex: an experiment again and again, each run with a seed of its own."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import click

from qcnn.cli.options.cost import Cost, check_package_cost, cost_options
from qcnn.cli.options.cron import unix_cron
from qcnn.cli.options.experiment import Words, experiment_options
from qcnn.cli.options.form import Sending, form_option, sending_options, show_rows, show_table, shown_only_option
from qcnn.cli.options.settings import place_options, source_options
from qcnn.cli.options.vertex_submission import submission_options
from qcnn.cli.output import on_stderr
from qcnn.jobs.vertex.location import Place, schedule_page
from qcnn.jobs.vertex.states import creation_time
from qcnn.targets.compiled_pipeline import Source, main_arguments, read_package, scheduled
from qcnn.targets.errors import BackendError, UnavailableError
from qcnn.targets.vertex.client import Vertex, as_json, id_of
from qcnn.targets.vertex.runs import ENDED, EXPERIMENT_LABEL, end_run, list_runs, state_of
from qcnn.targets.vertex.submission import Submission, check_bucket, run_request

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import PipelineJob, Schedule

# Tells one submission of a schedule from all others: Vertex AI gives schedules ids of its own.
_SUBMISSION_LABEL = "qcnn_submission"


@click.group()
def schedule() -> None:
    """Run an experiment again and again on Vertex AI, each time with a seed of its own."""


@schedule.command()
@click.option(
    "--cron", required=True, metavar="FIELDS", help='When, such as "0 9 * * MON-FRI"; TZ=Europe/Paris may stand before.'
)
@click.option("--max-concurrency", type=click.IntRange(1), default=1, show_default=True, help="Runs at the same time.")
@click.option("--queue", is_flag=True, help="Let runs wait for others to end.  [default: they are skipped]")
@click.option("--disabled", is_flag=True, help="Create it disabled, until `qcnn schedule enable`.")
@sending_options
@place_options
@source_options
@submission_options
@cost_options
@experiment_options
def create(
    cron: str,
    max_concurrency: int,
    queue: bool,
    disabled: bool,
    sending: Sending,
    place: Place,
    source: Source,
    submission: Submission,
    cost: Cost,
    words: Words,
) -> None:
    """Create a schedule, which is enabled at once; --run-name is its name, and that of its runs."""
    times = unix_cron(cron)
    name = submission.run_name or submission.experiment
    experiment = words.experiment()
    arguments = main_arguments(experiment, seeded_by_run=True)
    with scheduled(source, "vertex") as package:
        documents = read_package(package, "vertex")
        run = run_request(place, documents, arguments, name, submission)
    mark = secrets.token_hex(8)
    run.pipeline_job.labels[_SUBMISSION_LABEL] = mark
    run.pipeline_job.display_name = name
    from google.cloud.aiplatform_v1 import CreateScheduleRequest

    request = CreateScheduleRequest(
        parent=place.parent,
        schedule={
            "display_name": name,
            "cron": times,
            "max_concurrent_run_count": max_concurrency,
            "max_concurrent_active_run_count": max_concurrency,
            "allow_queueing": queue,
            # Vertex AI gives each run an id of its own.
            "create_pipeline_job_request": {"parent": run.parent, "pipeline_job": run.pipeline_job},
        },
    )
    if sending.dry_run:
        click.echo(as_json(request))
        return
    # Of each run.
    check_package_cost(cost, "vertex", documents[0], [experiment])
    check_bucket(submission.pipeline_root, place, on_stderr)
    vertex = Vertex(place)
    made = _created(vertex, request, mark)
    if disabled:
        vertex.ask("ScheduleService.pause_schedule", name=made.name)
    show_rows(sending.form, {"schedule": id_of(made), "look at it": schedule_page(place, id_of(made))})


@schedule.command("list")
@form_option
@place_options
def list_schedules(form: str, place: Place) -> None:
    """List all schedules: when they run, and whether they do."""
    rows = [
        (
            each.display_name,
            id_of(each),
            each.cron,
            _STATES.get(each.state.name, each.state.name.lower()),
            each.max_concurrent_run_count,
            "yes" if each.allow_queueing else "no",
        )
        for each in _schedules(Vertex(place))
    ]
    header = ("schedule", "id", "when", "state", "max concurrency", "queue")
    show_table(form, header, rows, "no schedules")


@schedule.command()
@click.argument("name", metavar="SCHEDULE")
@shown_only_option
@place_options
def enable(name: str, dry_run: bool, place: Place) -> None:
    """Enable SCHEDULE, by its id or name; what it missed is not made up for."""
    _change(name, place, "resume_schedule", "enabled", dry_run)


@schedule.command()
@click.argument("name", metavar="SCHEDULE")
@shown_only_option
@place_options
def disable(name: str, dry_run: bool, place: Place) -> None:
    """Disable SCHEDULE, by its id or name; runs that have begun go on."""
    _change(name, place, "pause_schedule", "disabled", dry_run)


@schedule.command()
@click.argument("name", metavar="SCHEDULE")
@shown_only_option
@place_options
def delete(name: str, dry_run: bool, place: Place) -> None:
    """Delete SCHEDULE, by its id or name, after its runs have been terminated, as by `qcnn terminate`."""
    vertex = Vertex(place)
    found = _find(vertex, name)
    if dry_run:
        ended = "".join(f", its run {id_of(run)} terminated" for run in _alive(vertex, found))
        click.echo(f"schedule {found.display_name} would be deleted{ended}")
        return
    if found.state.name == "ACTIVE":
        vertex.ask("ScheduleService.pause_schedule", name=found.name)
    for run in _alive(vertex, found):
        click.echo(f"terminating {id_of(run)}")
        if reason := end_run(vertex, run, click.echo):
            click.echo(reason, err=True)
    vertex.delete("ScheduleService.delete_schedule", found.name)
    click.echo(f"schedule {found.display_name} is deleted")


_STATES = {"ACTIVE": "enabled", "PAUSED": "disabled"}


def _created(vertex: Vertex, request: Any, mark: str) -> Schedule:
    """Create a schedule, and return it; one whose answer was lost is looked for, and never sent again."""
    try:
        made: Schedule = vertex.ask("ScheduleService.create_schedule", request, again=False)
    except UnavailableError:
        for each in _schedules(vertex):
            if each.create_pipeline_job_request.pipeline_job.labels.get(_SUBMISSION_LABEL) == mark:
                return each
        raise
    return made


def _schedules(vertex: Vertex) -> list[Schedule]:
    """Return all schedules of ours, oldest first."""
    found = vertex.pages("ScheduleService.list_schedules")
    ours = [each for each in found if EXPERIMENT_LABEL in each.create_pipeline_job_request.pipeline_job.labels]
    return sorted(ours, key=creation_time)


def _find(vertex: Vertex, name: str) -> Schedule:
    known = _schedules(vertex)
    found = [each for each in known if name in (id_of(each), each.display_name)]
    if len(found) == 1:
        return found[0]
    ids = ", ".join(f"{each.display_name} ({id_of(each)})" for each in found or known) or "none"
    raise BackendError(f"schedule: must be one of {ids}. Given: {name}")


def _alive(vertex: Vertex, schedule: Schedule) -> list[PipelineJob]:
    """Return the runs of a schedule that have not ended."""
    return [run for run in list_runs(vertex) if run.schedule_name == schedule.name and state_of(run) not in ENDED]


def _change(name: str, place: Place, method: str, state: str, dry_run: bool) -> None:
    """Make a request about a schedule, by its id or name, and print its new state; or only what that would be."""
    vertex = Vertex(place)
    found = _find(vertex, name)
    if dry_run:
        click.echo(f"schedule {found.display_name} would be {state}")
        return
    vertex.ask(f"ScheduleService.{method}", name=found.name)
    click.echo(f"schedule {found.display_name} is {state}")
