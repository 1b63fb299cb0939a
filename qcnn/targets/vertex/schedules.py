"""Schedules of pipelines on Vertex AI: made, found, switched on and off, and deleted."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qcnn.jobs.vertex.location import creation_time
from qcnn.targets.base import Say, ScheduleStatus
from qcnn.targets.cron import unix_cron
from qcnn.targets.errors import BackendError, UnavailableError
from qcnn.targets.settings import setting
from qcnn.targets.vertex.client import VertexClient, id_of
from qcnn.targets.vertex.runs import ENDED, EXPERIMENT_LABEL, list_runs, state_of, terminate_run
from qcnn.targets.vertex.submission import RunSettings, run_request

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CreateScheduleRequest, PipelineJob, Schedule

# Tells one submission of a schedule from all others: Vertex AI gives schedules ids of its own.
_SUBMISSION_LABEL = "qcnn_submission"
_STATES = {"ACTIVE": "enabled", "PAUSED": "disabled"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScheduleSettings(RunSettings):
    """When a pipeline is run on Vertex AI, and how.

    Raises:
        ConfigError: one of these is malformed.
    """

    cron: str = setting('When, such as "0 9 * * MON-FRI"; TZ=Europe/Paris may stand before.', metavar="FIELDS")
    max_concurrency: int = setting("Runs at the same time.", 1, least=1)
    queue: bool = setting("Let runs wait for others to end.", False, shown="they are skipped")
    disabled: bool = setting("Create it disabled, until `qcnn schedule enable`.", False)

    def __post_init__(self) -> None:
        super().__post_init__()
        unix_cron(self.cron)


def schedule_request(
    documents: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any], settings: ScheduleSettings
) -> CreateScheduleRequest:
    """Return the request that schedules a compiled pipeline; the name of the run is that of the schedule.

    Raises:
        ConfigError: the pipeline does not take these arguments.
    """
    name = settings.run_name or settings.experiment
    run = run_request(documents, arguments, name, settings)
    run.pipeline_job.labels[_SUBMISSION_LABEL] = secrets.token_hex(8)
    run.pipeline_job.display_name = name
    from google.cloud.aiplatform_v1 import CreateScheduleRequest

    return CreateScheduleRequest(
        parent=settings.place.parent,
        schedule={
            "display_name": name,
            "cron": unix_cron(settings.cron),
            "max_concurrent_run_count": settings.max_concurrency,
            "max_concurrent_active_run_count": settings.max_concurrency,
            "allow_queueing": settings.queue,
            # Vertex AI gives each run an id of its own.
            "create_pipeline_job_request": {"parent": run.parent, "pipeline_job": run.pipeline_job},
        },
    )


def create_schedule(vertex: VertexClient, request: CreateScheduleRequest, *, disabled: bool) -> str:
    """Create a schedule, and return its id; one whose answer was lost is looked for, and never sent again.

    Raises:
        BackendError: Vertex AI refuses, or does not answer.
    """
    mark = _mark(request.schedule)
    try:
        made: Schedule = vertex.ask("ScheduleService.create_schedule", request, again=False)
    except UnavailableError:
        found = next((each for each in _all(vertex) if _mark(each) == mark), None)
        if found is None:
            raise
        made = found
    if disabled:
        vertex.ask("ScheduleService.pause_schedule", name=made.name)
    return id_of(made)


def list_schedules(vertex: VertexClient) -> Sequence[ScheduleStatus]:
    """Return all schedules of ours, oldest first.

    Raises:
        BackendError: Vertex AI refuses, or does not answer.
    """
    return [
        ScheduleStatus(
            each.display_name,
            id_of(each),
            each.cron,
            _STATES.get(each.state.name, each.state.name.lower()),
            int(each.max_concurrent_run_count),
            queue=each.allow_queueing,
        )
        for each in _all(vertex)
    ]


def switch_schedule(vertex: VertexClient, name: str, *, enabled: bool, dry_run: bool) -> str:
    """Enable or disable a schedule, by its id or name, and return its name; what it missed is not made up for.

    Raises:
        BackendError: there is no such schedule; or Vertex AI refuses, or does not answer.
    """
    found = _find(vertex, name)
    if not dry_run:
        vertex.ask(f"ScheduleService.{'resume' if enabled else 'pause'}_schedule", name=found.name)
    return str(found.display_name)


def would_delete_schedule(vertex: VertexClient, name: str) -> tuple[str, Sequence[str]]:
    """Return the name of a schedule, by its id or name, and the ids of its runs that have not ended.

    Raises:
        BackendError: there is no such schedule; or Vertex AI refuses, or does not answer.
    """
    found = _find(vertex, name)
    return str(found.display_name), [id_of(run) for run in _alive(vertex, found)]


def delete_schedule(vertex: VertexClient, name: str, say: Say, warn: Say) -> str:
    """Delete a schedule, by its id or name, after its runs have been terminated, and return its name.

    Raises:
        BackendError: there is no such schedule; or Vertex AI refuses, or does not answer.
    """
    found = _find(vertex, name)
    if found.state.name == "ACTIVE":
        vertex.ask("ScheduleService.pause_schedule", name=found.name)
    for run in _alive(vertex, found):
        say(f"terminating {id_of(run)}")
        if reason := terminate_run(vertex, run, say):
            warn(reason)
    vertex.delete("ScheduleService.delete_schedule", found.name)
    return str(found.display_name)


def _mark(schedule: Schedule) -> str:
    return str(schedule.create_pipeline_job_request.pipeline_job.labels.get(_SUBMISSION_LABEL, ""))


def _all(vertex: VertexClient) -> list[Schedule]:
    found = vertex.pages("ScheduleService.list_schedules")
    ours = [each for each in found if EXPERIMENT_LABEL in each.create_pipeline_job_request.pipeline_job.labels]
    return sorted(ours, key=creation_time)


def _find(vertex: VertexClient, name: str) -> Schedule:
    known = _all(vertex)
    found = [each for each in known if name in (id_of(each), each.display_name)]
    if len(found) == 1:
        return found[0]
    ids = ", ".join(f"{each.display_name} ({id_of(each)})" for each in found or known) or "none"
    raise BackendError(f"schedule: must be one of {ids}. Given: {name}")


def _alive(vertex: VertexClient, schedule: Schedule) -> list[PipelineJob]:
    """Return the runs of a schedule that have not ended."""
    return [run for run in list_runs(vertex) if run.schedule_name == schedule.name and state_of(run) not in ENDED]
