"""What a pipeline job shows of its tasks while it runs: job_detail.task_details."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from google.cloud import aiplatform_v1 as v1

from tests.vertex.server.state import State, copied

_STATES = v1.PipelineTaskDetail.State
ENDED = (_STATES.SUCCEEDED, _STATES.FAILED, _STATES.CANCELLED, _STATES.SKIPPED, _STATES.NOT_TRIGGERED)
# google.rpc.Code of a task that failed.
_FAILED_PRECONDITION = 9

Artifacts = dict[str, list[v1.Artifact]]


class Task:
    """One task of a run; every change is seen by clients at once."""

    def __init__(self, state: State, job: v1.PipelineJob, name: str, parent: "Task | None" = None) -> None:
        self._state, self._job, self.name = state, job, name
        self.id = int(state.new_id())
        self.unique_name: str = f"{parent.unique_name}.{name}" if parent and parent.name else name
        with state.changed:
            detail = v1.PipelineTaskDetail(
                task_id=self.id,
                task_name=name or job.name.rpartition("/")[2],
                create_time=_now(),
                task_unique_name=self.unique_name,
            )
            if parent:
                detail.parent_task_id = parent.id
            job.job_detail.task_details.append(detail)
            # The list keeps a copy, which is what changes from now on.
            self._index = len(job.job_detail.task_details) - 1
        self.move_to(_STATES.PENDING)

    def move_to(self, state: Any, message: str = "") -> None:
        """Change the state; a message is that of an error."""
        with self._state.changed:
            detail = self._detail()
            detail.state = state
            status = v1.PipelineTaskDetail.PipelineTaskStatus(state=state, update_time=_now())
            if message:
                detail.error.code, detail.error.message = _FAILED_PRECONDITION, message
                status.error = detail.error
            detail.pipeline_task_status.append(status)
            if state == _STATES.RUNNING:
                detail.start_time = _now()
            if state in ENDED:
                detail.end_time = _now()
            self._job.update_time = _now()
            self._state.changed.notify_all()

    def show_job(self, name: str) -> None:
        """Show the custom job that runs the task; one before it has failed."""
        with self._state.changed:
            container = self._detail().executor_detail.container_detail
            if container.main_job:
                container.failed_main_jobs.append(container.main_job)
            container.main_job = name
            self._detail().executor_detail.container_detail = container

    def show(self, execution: v1.Execution, inputs: Artifacts, outputs: Artifacts) -> None:
        """Show what is known of the task once it has ended."""
        with self._state.changed:
            detail = self._detail()
            detail.execution = copied(execution)
            for shown, artifacts in ((detail.inputs, inputs), (detail.outputs, outputs)):
                for name, found in artifacts.items():
                    shown[name] = v1.PipelineTaskDetail.ArtifactList(artifacts=found)

    def _detail(self) -> v1.PipelineTaskDetail:
        return self._job.job_detail.task_details[self._index]


def executor_artifacts(artifacts: Mapping[str, Sequence[v1.Artifact]]) -> dict[str, Any]:
    """Return artifacts as kfp's ExecutorInput has them."""
    return {
        name: {
            "artifacts": [
                {
                    "name": each.name,
                    "uri": each.uri,
                    "type": {"schemaTitle": each.schema_title, "schemaVersion": each.schema_version},
                    "metadata": v1.Artifact.to_dict(each).get("metadata") or {},
                }
                for each in found
            ]
        }
        for name, found in artifacts.items()
    }


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
