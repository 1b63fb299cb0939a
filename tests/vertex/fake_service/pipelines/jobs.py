"""Pipeline jobs of PipelineService."""

import datetime
import re
import threading
from typing import Any

from google.cloud import aiplatform_v1 as v1
from google.protobuf import empty_pb2

from tests.vertex.fake_service.connection.transport import Handler
from tests.vertex.fake_service.errors import StatusError, precondition
from tests.vertex.fake_service.operations import Operations
from tests.vertex.fake_service.pipelines.dag import Dag
from tests.vertex.fake_service.pipelines.details import Task
from tests.vertex.fake_service.pipelines.run import Run, RunCancelledError, Services, StepFailedError, Values
from tests.vertex.fake_service.pipelines.spec import Json, read_parameters, read_root, read_spec
from tests.vertex.fake_service.state import copied

QUEUED, PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLING, CANCELLED = (
    v1.PipelineState(getattr(v1.PipelineState, f"PIPELINE_STATE_{name}"))
    for name in ("QUEUED", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED")
)
ENDED = (SUCCEEDED, FAILED, CANCELLED)
_STATES = v1.PipelineTaskDetail.State
_FILTERED = (
    "pipeline_name",
    "display_name",
    "pipeline_job_user_id",
    "state",
    "create_time",
    "update_time",
    "end_time",
    "labels",
    "template_uri",
    "schedule_name",
)
# google.rpc.Code
_CANCELLED, _FAILED_PRECONDITION = 1, 9
_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,126}[a-z0-9])?")


class PipelineJobs:
    """Handlers that create, list, run, cancel and delete pipeline jobs."""

    def __init__(self, services: Services, operations: Operations) -> None:
        self._services, self._operations = services, operations
        self._runs: dict[str, tuple[Run, threading.Thread]] = {}

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the service."""
        state = self._services.state
        return {
            "PipelineService/CreatePipelineJob": lambda request: self.create(
                request.parent, request.pipeline_job, request.pipeline_job_id
            ),
            "PipelineService/GetPipelineJob": lambda request: state.copy(v1.PipelineJob, request.name),
            "PipelineService/ListPipelineJobs": self._list,
            "PipelineService/CancelPipelineJob": self._cancel,
            "PipelineService/DeletePipelineJob": self._delete,
        }

    def create(self, parent: str, given: v1.PipelineJob, identifier: str = "", schedule: str = "") -> v1.PipelineJob:
        """Create and start a pipeline job, and return its initial state.

        Args:
            parent: Project and location.
            given: Job without a name.
            identifier: ID of the job, by default the name of the pipeline and a number.
            schedule: Name of the schedule that creates the job, if any.
        """
        services = self._services
        place = services.state.parent(parent)
        job = copied(given)
        spec = read_spec(job)
        root, parameters = read_root(job, spec), read_parameters(job, spec)
        identifier = identifier or f"{spec['pipelineInfo']['name']}-{services.state.new_id()}"
        if not _ID.fullmatch(identifier):
            raise StatusError(400, f"Invalid pipeline_job_id: must match {_ID.pattern}. Given: {identifier}")
        job.name = f"{place}/pipelineJobs/{identifier}"
        job.state, job.schedule_name = PENDING, schedule
        job.create_time = job.update_time = datetime.datetime.now(datetime.UTC)
        job.service_account = job.service_account or f"{job.name.split('/')[1]}-compute@developer.gserviceaccount.com"
        services.state.add(job.name, job)
        kept = copied(job)
        run = Run(services, job, spec, root)
        thread = threading.Thread(target=self._run, args=(run, parameters), daemon=True)
        self._runs[job.name] = run, thread
        thread.start()
        return kept

    def cancel(self, name: str) -> None:
        """Cancel a job unless it has ended."""
        state = self._services.state
        with state.changed:
            job = state.get(v1.PipelineJob, name)
            if job.state in ENDED:
                return
            job.state = CANCELLING
        self._runs[job.name][0].cancel()

    def close(self) -> None:
        """Cancel all runs and wait for their end."""
        for run, _ in list(self._runs.values()):
            run.cancel()
        for _, thread in list(self._runs.values()):
            thread.join()

    def _run(self, run: Run, parameters: Json) -> None:
        services, job, spec = self._services, run.job, run.spec
        name = spec["pipelineInfo"]["name"]
        pipeline = services.metadata.ensure_context(name, "system.Pipeline", name)
        context = services.metadata.ensure_context(run.id, "system.PipelineRun", run.id)
        run.context = context.name
        with services.state.changed:
            kept = services.state.get(v1.Context, context.name)
            kept.parent_contexts = [pipeline.name]
            services.metadata.children[pipeline.name].add(context.name)
            job.job_detail.pipeline_context = copied(pipeline)
            job.job_detail.pipeline_run_context = copied(kept)
        self._services.state.move(job, RUNNING)
        inputs = Values(parameters)
        task = Task(services.state, job, "")
        task.move_to(_STATES.RUNNING)
        try:
            outputs = Dag(run, spec["root"], inputs, task).execute()
        except RunCancelledError:
            run.record(task, "system.Run", inputs, Values())
            task.move_to(_STATES.CANCELLED)
            self._services.state.move(job, CANCELLED, _CANCELLED, "The PipelineJob was cancelled.")
        except StepFailedError as error:
            run.record(task, "system.Run", inputs, Values())
            task.move_to(_STATES.FAILED, str(error))
            which = f"Job (project_id = {services.state.project}, job_id = {run.id})"
            self._services.state.move(
                job, FAILED, _FAILED_PRECONDITION, f"{error}; {which} is failed due to the above error."
            )
        else:
            run.record(task, "system.Run", inputs, outputs)
            task.move_to(_STATES.SUCCEEDED)
            self._services.state.move(job, SUCCEEDED)

    def _list(self, request: v1.ListPipelineJobsRequest) -> v1.ListPipelineJobsResponse:
        page, token = self._services.state.page(v1.PipelineJob, request, _FILTERED)
        for job in page:
            # API reference of job_detail: "Not available in the list view."
            job.job_detail = v1.PipelineJobDetail()
        return v1.ListPipelineJobsResponse(pipeline_jobs=page, next_page_token=token)

    def _cancel(self, request: v1.CancelPipelineJobRequest) -> Any:
        self.cancel(request.name)
        return empty_pb2.Empty()

    def _delete(self, request: v1.DeletePipelineJobRequest) -> Any:
        state = self._services.state
        with state.changed:
            job = state.get(v1.PipelineJob, request.name)
            if job.state not in ENDED:
                raise precondition(f"The PipelineJob is not in a final state, cancel it first. Name: {job.name}")
            return self._operations.run(job.name, lambda: state.remove(job.name), metadata=v1.DeleteOperationMetadata())
