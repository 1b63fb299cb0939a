"""Task details of a running pipeline job: job_detail.task_details."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from google.cloud import aiplatform_v1 as v1

from tests.vertex.fake_service.state import State, copied

_STATES = v1.PipelineTaskDetail.State
ENDED = (_STATES.SUCCEEDED, _STATES.FAILED, _STATES.CANCELLED, _STATES.SKIPPED, _STATES.NOT_TRIGGERED)
# google.rpc.Code of a task that failed.
_FAILED_PRECONDITION = 9

Artifacts = dict[str, list[v1.Artifact]]


class Task:
    """Task of a run. Changes are immediately visible to clients."""

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
            # append() copies the message, so changes must be made to the list item.
            self._index = len(job.job_detail.task_details) - 1
        self.move_to(_STATES.PENDING)

    def move_to(self, state: Any, message: str = "") -> None:
        """Change the state, with the message of an error if there is one."""
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
        """Set the custom job that runs the task. An earlier job is listed as failed."""
        with self._state.changed:
            container = self._detail().executor_detail.container_detail
            if container.main_job:
                container.failed_main_jobs.append(container.main_job)
            container.main_job = name
            self._detail().executor_detail.container_detail = container

    def show(self, execution: v1.Execution, inputs: Artifacts, outputs: Artifacts) -> None:
        """Set the execution, inputs and outputs of the ended task."""
        with self._state.changed:
            detail = self._detail()
            detail.execution = copied(execution)
            for shown, artifacts in ((detail.inputs, inputs), (detail.outputs, outputs)):
                for name, found in artifacts.items():
                    shown[name] = v1.PipelineTaskDetail.ArtifactList(artifacts=found)

    def _detail(self) -> v1.PipelineTaskDetail:
        return self._job.job_detail.task_details[self._index]


def executor_artifacts(artifacts: Mapping[str, Sequence[v1.Artifact]]) -> dict[str, Any]:
    """Return artifacts in the format of KFP's ExecutorInput."""
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
    return datetime.datetime.now(datetime.UTC)
