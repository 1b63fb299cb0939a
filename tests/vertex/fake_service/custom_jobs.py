"""Custom jobs of JobService."""

import datetime
import threading
from collections.abc import Mapping
from typing import Any

from google.cloud import aiplatform_v1 as v1
from google.protobuf import empty_pb2

from tests.vertex.fake_service.connection.transport import Handler
from tests.vertex.fake_service.errors import precondition
from tests.vertex.fake_service.job_run import ENDED, QUEUED, JobContext, JobRun
from tests.vertex.fake_service.operations import Operations
from tests.vertex.fake_service.state import copied
from tests.vertex.fake_service.training.validation import check_custom_job

_FILTERED = ("display_name", "state", "create_time", "labels")


class CustomJobs:
    """Handlers that create, list, run, cancel and delete custom jobs."""

    def __init__(self, context: JobContext, operations: Operations) -> None:
        self._context, self._operations = context, operations
        self._runs: dict[str, JobRun] = {}
        self._lock = threading.Lock()

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the service."""
        state = self._context.state
        return {
            "JobService/CreateCustomJob": lambda request: self.create(request.parent, request.custom_job),
            "JobService/GetCustomJob": lambda request: state.copy(v1.CustomJob, request.name),
            "JobService/ListCustomJobs": self._list,
            "JobService/CancelCustomJob": self._cancel,
            "JobService/DeleteCustomJob": self._delete,
        }

    def create(
        self,
        parent: str,
        given: v1.CustomJob,
        trial: str = "",
        *,
        step: bool = False,
        added: Mapping[str, str] | None = None,
    ) -> v1.CustomJob:
        """Create and start a custom job, and return its initial state.

        Args:
            parent: Project and location.
            given: Job without a name.
            trial: ID of the tuning trial that the job runs, if any.
            step: Whether the job runs a pipeline step, which does not wait for capacity.
            added: Environment variables that are not in the job's spec.
        """
        state = self._context.state
        place = state.parent(parent)
        check_custom_job(given)
        job = copied(given)
        job.name = f"{place}/customJobs/{state.new_id()}"
        job.state = QUEUED
        job.create_time = job.update_time = datetime.datetime.now(datetime.UTC)
        kept = copied(job)
        state.add(job.name, job)
        with self._lock:
            self._runs[job.name] = JobRun(job, self._context, trial, needs_capacity=not step, added=added)
        return kept

    def cancel(self, name: str) -> None:
        """Cancel a job unless it has ended."""
        job = self._context.state.get(v1.CustomJob, name)
        self._runs[job.name].cancel()

    def preempt(self, name: str, replica: str) -> None:
        """Preempt the VM of a replica such as workerpool1-0."""
        self._runs[self._context.state.get(v1.CustomJob, name).name].preempt(replica)

    def close(self) -> None:
        """Kill all running jobs."""
        for run in list(self._runs.values()):
            run.signal_all()
        with self._context.state.changed:
            self._context.state.changed.notify_all()
        for run in list(self._runs.values()):
            run.wait()

    def _cancel(self, request: v1.CancelCustomJobRequest) -> Any:
        self.cancel(request.name)
        return empty_pb2.Empty()

    def _list(self, request: v1.ListCustomJobsRequest) -> v1.ListCustomJobsResponse:
        page, token = self._context.state.page(v1.CustomJob, request, _FILTERED)
        return v1.ListCustomJobsResponse(custom_jobs=page, next_page_token=token)

    def _delete(self, request: v1.DeleteCustomJobRequest) -> Any:
        state = self._context.state
        with state.changed:
            job = state.get(v1.CustomJob, request.name)
            if job.state not in ENDED:
                raise precondition(f"The CustomJob is not in a final state, cancel it first. Name: {job.name}")
            return self._operations.run(job.name, lambda: state.remove(job.name), metadata=v1.DeleteOperationMetadata())
