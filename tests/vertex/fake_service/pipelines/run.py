"""State that all tasks of a pipeline run share."""

import dataclasses
import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

from google.cloud import aiplatform_v1 as v1

from tests.vertex.fake_service.custom_jobs import CustomJobs
from tests.vertex.fake_service.metadata.store import INPUT, OUTPUT, Metadata
from tests.vertex.fake_service.pipelines.details import Artifacts, Task
from tests.vertex.fake_service.pipelines.spec import Json
from tests.vertex.fake_service.state import State

# Label that Vertex AI Pipelines sets on every job of a run.
RUN_LABEL = "vertex-ai-pipelines-run-billing-id"


class StepFailedError(Exception):
    """A container step failed."""


class RunCancelledError(Exception):
    """The run is being cancelled."""


@dataclasses.dataclass(frozen=True)
class Values:
    """Parameters and artifacts: the inputs or the outputs of a task."""

    parameters: Json = dataclasses.field(default_factory=dict)
    artifacts: Artifacts = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Services:
    """Parts of the server that runs use."""

    state: State
    jobs: CustomJobs
    metadata: Metadata
    folder: Path
    storage_host: Callable[[], str]
    # Outputs of successful steps by a digest of their inputs.
    cache: dict[str, Values] = dataclasses.field(default_factory=dict)


class Run:
    """Running pipeline job."""

    def __init__(self, services: Services, job: v1.PipelineJob, spec: Json, root: str) -> None:
        self.services, self.job, self.spec, self.root = services, job, spec, root
        self.cancelled = threading.Event()
        # Set when a task has failed and the failure policy is to start no further tasks.
        self.stopped = threading.Event()
        self._running: set[str] = set()
        self.id = job.name.rpartition("/")[2]
        self.context = ""

    def handle_failure(self) -> None:
        """Stop starting tasks if the failure policy of the job is FAIL_FAST."""
        if self.job.runtime_config.failure_policy == v1.PipelineFailurePolicy.PIPELINE_FAILURE_POLICY_FAIL_FAST:
            self.stopped.set()

    def cancel(self) -> None:
        """Cancel running tasks and start no further ones."""
        self.cancelled.set()
        with self.services.state.changed:
            running = list(self._running)
        for name in running:
            self.services.jobs.cancel(name)

    def start(self, task: Task, job: v1.CustomJob) -> str:
        """Start the custom job of a task and return its name."""
        services = self.services
        with services.state.changed:
            name: str = services.jobs.create("/".join(self.job.name.split("/")[:4]), job, step=True).name
            self._running.add(name)
            task.show_job(name)
        if self.cancelled.is_set():
            services.jobs.cancel(name)
        return name

    def placeholders(self, task: Task) -> dict[str, str]:
        """Return the values of the placeholders of the run and a task."""
        state = self.services.state
        created = self.job.create_time.strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "pipeline_job_name": self.id,
            "pipeline_job_resource_name": self.job.name,
            "pipeline_job_uuid": str(int(hashlib.sha256(self.job.name.encode()).hexdigest()[:15], 16)),
            "pipeline_task_name": task.name,
            "pipeline_task_uuid": str(task.id),
            "pipeline_root": self.root,
            "pipeline_job_create_time_utc": created,
            "pipeline_job_schedule_time_utc": created,
            "pipeline_google_cloud_project_id": state.project,
            "pipeline_google_cloud_location": state.location,
            "pipeline_service_account": self.job.service_account,
            "pipeline_network": self.job.network,
            "pipeline_encryption_key_name": self.job.encryption_spec.kms_key_name,
        }

    def record(self, task: Task, schema: str, inputs: Values, outputs: Values) -> None:
        """Record the execution of a task in the metadata store and in the details of the pipeline job."""
        metadata = {
            **{f"input:{name}": value for name, value in inputs.parameters.items()},
            **{f"output:{name}": value for name, value in outputs.parameters.items()},
        }
        store = self.services.metadata
        execution = store.keep(
            v1.Execution,
            "executions",
            display_name=task.name or self.id,
            schema_title=schema,
            schema_version="0.0.1",
            state=v1.Execution.State.COMPLETE,
            metadata=metadata,
        )
        for artifacts, kind in ((inputs.artifacts, INPUT), (outputs.artifacts, OUTPUT)):
            names = {each.name: None for found in artifacts.values() for each in found}
            store.link(execution.name, names, kind)
            store.hold(self.context, *names)
        store.hold(self.context, execution.name)
        task.show(execution, inputs.artifacts, outputs.artifacts)
