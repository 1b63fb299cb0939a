"""Schedules of Vertex AI pipelines: create, list, enable, disable and delete."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from qcnn.experiment.config import ExperimentConfig
from qcnn.jobs.vertex.location import creation_time, schedule_page
from qcnn.targets.base import Prepared, ReportLine, Schedules, ScheduleStatus, Submitted
from qcnn.targets.compiled_pipeline import RegistrationFields, compile_for_schedule, main_inputs, read_package
from qcnn.targets.cron import unix_cron
from qcnn.targets.errors import UnavailableError
from qcnn.targets.lookup import only_schedule
from qcnn.targets.settings import setting
from qcnn.targets.vertex.bound import VertexPipelines
from qcnn.targets.vertex.client import VertexClient, id_of
from qcnn.targets.vertex.runs import ENDED, EXPERIMENT_LABEL, list_runs, state_of, terminate_run
from qcnn.targets.vertex.submission import RunSettings, prepared, run_request

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CreateScheduleRequest, PipelineJob, Schedule

# Identifies a submission of a schedule, because Vertex AI generates the schedule ID.
_SUBMISSION_LABEL = "qcnn_submission"
_STATES = {"ACTIVE": "enabled", "PAUSED": "disabled"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScheduleSettings(RegistrationFields, RunSettings):
    """Settings of a schedule and its runs.

    Raises:
        ConfigError: If a setting is malformed.
    """

    cron: str = setting('Cron expression, such as "0 9 * * MON-FRI" or "TZ=Europe/Paris 0 9 * * *".', metavar="FIELDS")
    max_concurrency: int = setting("Maximum number of concurrent runs.", 1, minimum=1)
    queue: bool = setting("Queue late runs until active runs end.", False, shown="late runs are skipped")
    disabled: bool = setting("Create the schedule disabled, until `qcnn schedule enable`.", False)

    def __post_init__(self) -> None:
        super().__post_init__()
        unix_cron(self.cron)


def schedule_request(
    documents: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any], settings: ScheduleSettings
) -> CreateScheduleRequest:
    """Return the request that schedules a compiled pipeline. The run name is also the schedule's name.

    Args:
        documents: Documents of the compiled pipeline.
        arguments: Pipeline arguments.
        settings: Settings of the schedule.

    Raises:
        ConfigError: If the pipeline does not have these parameters.
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
            # Without an ID: Vertex AI generates one for each run.
            "create_pipeline_job_request": {"parent": run.parent, "pipeline_job": run.pipeline_job},
        },
    )


def create_schedule(vertex: VertexClient, request: CreateScheduleRequest, *, disabled: bool) -> str:
    """Create a schedule and return its ID. If the response is lost, the schedule is looked up.

    Args:
        vertex: Vertex AI client.
        request: Request for the schedule.
        disabled: Whether to disable the schedule.

    Raises:
        BackendError: If Vertex AI rejects the request or is unavailable.
    """
    mark = _mark(request.schedule)
    try:
        schedule: Schedule = vertex.call("ScheduleService.create_schedule", request, retry=False)
    except UnavailableError:
        found = next((each for each in _all(vertex) if _mark(each) == mark), None)
        if found is None:
            raise
        schedule = found
    if disabled:
        vertex.call("ScheduleService.pause_schedule", name=schedule.name)
    return id_of(schedule)


class VertexSchedules(VertexPipelines, Schedules[ScheduleSettings]):
    """Schedules of the target vertex."""

    schedule_settings: ClassVar[type[ScheduleSettings]] = ScheduleSettings

    @override
    def prepare_schedule(self, experiment: ExperimentConfig, settings: ScheduleSettings) -> Prepared:
        """Compile the pipeline, and return a recurring run of it. The run name is also the name of the schedule."""
        inputs = main_inputs(experiment, per_run_seed=True)
        with compile_for_schedule(settings, settings.registration(settings.package), type(self)) as package:
            documents = read_package(package, type(self))
        request = schedule_request(documents, inputs.arguments, settings)

        def send() -> Submitted:
            schedule = create_schedule(self.vertex, request, disabled=settings.disabled)
            return Submitted(schedule, page=schedule_page(settings.place, schedule))

        return prepared(request, documents, inputs, settings, send)

    @override
    def list_schedules(self) -> Sequence[ScheduleStatus]:
        """Return all schedules of qcnn, oldest first."""
        return [
            ScheduleStatus(
                each.display_name,
                id_of(each),
                each.cron,
                _STATES.get(each.state.name, each.state.name.lower()),
                int(each.max_concurrent_run_count),
                queue=each.allow_queueing,
            )
            for each in _all(self.vertex)
        ]

    @override
    def switch_schedule(self, name: str, *, enabled: bool, dry_run: bool) -> str:
        """Enable or disable a schedule and return its name. Missed runs are not started later."""
        found = _find(self.vertex, name)
        if not dry_run:
            self.vertex.call(f"ScheduleService.{'resume' if enabled else 'pause'}_schedule", name=found.name)
        return str(found.display_name)

    @override
    def would_delete_schedule(self, name: str) -> tuple[str, Sequence[str]]:
        found = _find(self.vertex, name)
        return str(found.display_name), [id_of(run) for run in _alive(self.vertex, found)]

    @override
    def delete_schedule(self, name: str, report: ReportLine, warn: ReportLine) -> str:
        found = _find(self.vertex, name)
        if found.state.name == "ACTIVE":
            self.vertex.call("ScheduleService.pause_schedule", name=found.name)
        for run in _alive(self.vertex, found):
            report(f"terminating {id_of(run)}")
            if reason := terminate_run(self.vertex, run, report):
                warn(reason)
        self.vertex.delete("ScheduleService.delete_schedule", found.name)
        return str(found.display_name)


def _mark(schedule: Schedule) -> str:
    return str(schedule.create_pipeline_job_request.pipeline_job.labels.get(_SUBMISSION_LABEL, ""))


def _all(vertex: VertexClient) -> list[Schedule]:
    found = vertex.pages("ScheduleService.list_schedules")
    own = [each for each in found if EXPERIMENT_LABEL in each.create_pipeline_job_request.pipeline_job.labels]
    return sorted(own, key=creation_time)


def _find(vertex: VertexClient, name: str) -> Schedule:
    return only_schedule(_all(vertex), id_of, name)


def _alive(vertex: VertexClient, schedule: Schedule) -> list[PipelineJob]:
    """Return the active runs of a schedule."""
    return [run for run in list_runs(vertex) if run.schedule_name == schedule.name and state_of(run) not in ENDED]
