"""ScheduleService: schedules of pipeline jobs, which tests trigger."""

import datetime
from typing import Any

from google.cloud import aiplatform_v1 as v1
from google.protobuf import empty_pb2

from tests.vertex.fake_service.connection.transport import Handler
from tests.vertex.fake_service.errors import StatusError, check_display_name, precondition, require
from tests.vertex.fake_service.operations import Operations
from tests.vertex.fake_service.pipelines import jobs
from tests.vertex.fake_service.pipelines.cron import next_time
from tests.vertex.fake_service.pipelines.spec import read_spec
from tests.vertex.fake_service.state import State, copied

_ACTIVE, _PAUSED, _COMPLETED = (
    v1.Schedule.State(getattr(v1.Schedule.State, name)) for name in ("ACTIVE", "PAUSED", "COMPLETED")
)
_FILTERED = (
    "display_name",
    "state",
    "request",
    "create_time",
    "update_time",
    "end_time",
    "start_time",
    "next_run_time",
    "started_run_count",
    "create_pipeline_job_request",
)


class Schedules:
    """Handlers that create, list, update, pause, resume and delete schedules."""

    def __init__(self, state: State, pipelines: jobs.PipelineJobs, operations: Operations) -> None:
        self._state, self._pipelines, self._operations = state, pipelines, operations

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the service."""
        return {
            "ScheduleService/CreateSchedule": self._create,
            "ScheduleService/GetSchedule": lambda request: self._state.copy(v1.Schedule, request.name),
            "ScheduleService/ListSchedules": self._list,
            "ScheduleService/PauseSchedule": self._pause,
            "ScheduleService/ResumeSchedule": self._resume,
            "ScheduleService/UpdateSchedule": self._update,
            "ScheduleService/DeleteSchedule": self._delete,
        }

    def tick(self, name: str) -> str:
        """Trigger a schedule and return the name of the created pipeline job, or an empty text if none was created."""
        with self._state.changed:
            schedule = self._state.get(v1.Schedule, name)
            if schedule.state != _ACTIVE or self._is_busy(schedule):
                return ""
            now = datetime.datetime.now(datetime.UTC)
            request = schedule.create_pipeline_job_request
            pipeline = read_spec(copied(request.pipeline_job))["pipelineInfo"]["name"]
            identifier = f"{pipeline}-{now:%Y%m%d%H%M%S}-{schedule.started_run_count}"
            made = self._pipelines.create(request.parent, request.pipeline_job, identifier, schedule.name)
            schedule.started_run_count += 1
            schedule.last_scheduled_run_response = v1.Schedule.RunResponse(
                scheduled_run_time=now, run_response=made.name
            )
            if schedule.started_run_count == schedule.max_run_count:
                schedule.state = _COMPLETED
            schedule.next_run_time = next_time(schedule.cron, now)
            return str(made.name)

    def _is_busy(self, schedule: v1.Schedule) -> bool:
        """Return whether the maximum number of runs of a schedule is active."""
        running = [
            job
            for job in self._state.all(v1.PipelineJob)
            if job.schedule_name == schedule.name and job.state not in jobs.ENDED
        ]
        limit = schedule.max_concurrent_active_run_count
        return bool(limit) and len(running) >= limit

    def _create(self, request: v1.CreateScheduleRequest) -> v1.Schedule:
        schedule = copied(request.schedule)
        check_display_name(schedule.display_name)
        require("schedule.cron", schedule.cron)
        require("schedule.max_concurrent_run_count", schedule.max_concurrent_run_count)
        require("schedule.create_pipeline_job_request.parent", schedule.create_pipeline_job_request.parent)
        if schedule.create_pipeline_job_request.pipeline_job_id:
            raise StatusError(400, "`pipeline_job_id` must not be set in the request of a schedule.")
        read_spec(copied(schedule.create_pipeline_job_request.pipeline_job))
        now = datetime.datetime.now(datetime.UTC)
        schedule.name = f"{self._state.parent(request.parent)}/schedules/{self._state.new_id()}"
        schedule.state, schedule.create_time, schedule.update_time = _ACTIVE, now, now
        schedule.start_time = schedule.start_time or now
        schedule.next_run_time = next_time(schedule.cron, now)
        self._state.add(schedule.name, schedule)
        return copied(schedule)

    def _list(self, request: v1.ListSchedulesRequest) -> v1.ListSchedulesResponse:
        page, token = self._state.page(v1.Schedule, request, _FILTERED)
        return v1.ListSchedulesResponse(schedules=page, next_page_token=token)

    def _pause(self, request: v1.PauseScheduleRequest) -> Any:
        with self._state.changed:
            schedule = self._in_state(request.name, _ACTIVE)
            schedule.state = _PAUSED
            schedule.last_pause_time = datetime.datetime.now(datetime.UTC)
        return empty_pb2.Empty()

    def _resume(self, request: v1.ResumeScheduleRequest) -> Any:
        with self._state.changed:
            schedule = self._in_state(request.name, _PAUSED)
            schedule.state, schedule.catch_up = _ACTIVE, request.catch_up
            schedule.last_resume_time = datetime.datetime.now(datetime.UTC)
        return empty_pb2.Empty()

    def _update(self, request: v1.UpdateScheduleRequest) -> v1.Schedule:
        with self._state.changed:
            schedule = self._state.get(v1.Schedule, request.schedule.name)
            for path in request.update_mask.paths:
                setattr(schedule, path, getattr(request.schedule, path))
            schedule.next_run_time = next_time(schedule.cron, datetime.datetime.now(datetime.UTC))
            return copied(schedule)

    def _delete(self, request: v1.DeleteScheduleRequest) -> Any:
        name = self._state.get(v1.Schedule, request.name).name
        return self._operations.run(name, lambda: self._state.remove(name), v1.DeleteOperationMetadata())

    def _in_state(self, name: str, wanted: Any) -> v1.Schedule:
        schedule = self._state.get(v1.Schedule, name)
        if schedule.state != wanted:
            raise precondition(f"The Schedule must be {wanted.name}. It is {schedule.state.name}.")
        return schedule
