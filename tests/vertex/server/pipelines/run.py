"""What all tasks of one run share, and how one container step is run: as a custom job."""

import dataclasses
import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from google.cloud import aiplatform_v1 as v1

from tests.vertex.server import job_run
from tests.vertex.server.custom_jobs import CustomJobs
from tests.vertex.server.metadata.store import INPUT, OUTPUT, Metadata
from tests.vertex.server.pipelines import mount
from tests.vertex.server.pipelines.details import Artifacts, Task, executor_artifacts
from tests.vertex.server.pipelines.mounted import VARIABLE
from tests.vertex.server.pipelines.placeholders import UnknownPlaceholderError, resolved
from tests.vertex.server.pipelines.spec import Json, whole
from tests.vertex.server.state import State

_STATES = v1.PipelineTaskDetail.State
# The label that Vertex AI Pipelines gives whatever it starts.
RUN_LABEL = "vertex-ai-pipelines-run-billing-id"
_MACHINE = "e2-standard-4"


class StepFailedError(Exception):
    """A container step has not succeeded."""


class RunCancelledError(Exception):
    """The run is being cancelled."""


@dataclasses.dataclass(frozen=True)
class Values:
    """Parameters and artifacts, as a task is given them or leaves them."""

    parameters: Json = dataclasses.field(default_factory=dict)
    artifacts: Artifacts = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Services:
    """What runs need of the server."""

    state: State
    jobs: CustomJobs
    metadata: Metadata
    folder: Path
    storage_host: Callable[[], str]
    # Outputs of steps that have succeeded, by what they were given.
    cache: dict[str, Values] = dataclasses.field(default_factory=dict)


class Run:
    """One pipeline job that is being run."""

    def __init__(self, services: Services, job: v1.PipelineJob, spec: Json, root: str) -> None:
        self.services, self.job, self.spec, self.root = services, job, spec, root
        self.cancelled = threading.Event()
        # Set once a task has failed, where no other is to be started then.
        self.stopped = threading.Event()
        self._running: set[str] = set()
        self.id = job.name.rpartition("/")[2]
        self.context = ""

    def note_failure(self) -> None:
        """Start no further task, where the job's failure policy says so."""
        if self.job.runtime_config.failure_policy == v1.PipelineFailurePolicy.PIPELINE_FAILURE_POLICY_FAIL_FAST:
            self.stopped.set()

    def cancel(self) -> None:
        """Cancel what runs, and start nothing more."""
        self.cancelled.set()
        with self.services.state.changed:
            running = list(self._running)
        for name in running:
            self.services.jobs.cancel(name)

    def placeholders(self, task: Task) -> dict[str, str]:
        """Return what the placeholders of the run, and of a task, stand for."""
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

    def step(self, task: Task, component: Json, inputs: Values, *, cached: bool, retries: int) -> Values:
        """Run a container step to its end; return what it leaves.

        Raises:
            StepFailedError: it failed, every time.
            RunCancelledError: the run is being cancelled.
        """
        executor = self.spec["deploymentSpec"]["executors"][component["executorLabel"]]["container"]
        key = _cache_key(component, executor, inputs)
        found = self.services.cache.get(key) if cached else None
        if found:
            self.record(task, "system.ContainerExecution", inputs, found)
            task.move_to(_STATES.SKIPPED)
            return found
        task.move_to(_STATES.RUNNING)
        outputs = self._tried(task, component, executor, inputs, retries)
        self.services.cache[key] = outputs
        self.record(task, "system.ContainerExecution", inputs, outputs)
        task.move_to(_STATES.SUCCEEDED)
        return outputs

    def record(self, task: Task, schema: str, inputs: Values, outputs: Values) -> None:
        """Keep the execution of a task in the metadata store, and show it."""
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

    def _tried(self, task: Task, component: Json, executor: Json, inputs: Values, retries: int) -> Values:
        for attempt in range(retries + 1):
            try:
                return self._attempt(task, component, executor, inputs)
            except StepFailedError:
                # The backoff is left out: nobody waits for anything here.
                if attempt == retries:
                    raise
        raise AssertionError

    def _attempt(self, task: Task, component: Json, executor: Json, inputs: Values) -> Values:
        if self.cancelled.is_set():
            raise RunCancelledError
        host, folder = self.services.storage_host(), self.services.folder / str(task.id)
        where = f"{self.root}/{self.job.name.split('/')[1]}/{self.id}/{task.name}_{task.id}"
        made = self._output_artifacts(component, where)
        executor_input = _executor_input(inputs, made, component, where, folder)
        mount.fill(host, folder, [each.uri for found in inputs.artifacts.values() for each in found])
        known = mount.marks(folder)
        job = self._custom_job(task, executor, executor_input, folder)
        try:
            self._run_job(task, job)
        finally:
            # What a failed step has written is there, too: gcsfuse writes through.
            mount.copy_back(host, folder, known)
        return self._outputs(component, executor_input, made)

    def _custom_job(self, task: Task, executor: Json, executor_input: Json, folder: Path) -> v1.CustomJob:
        placeholders = self.placeholders(task)

        def words(found: list[str]) -> list[str]:
            return [resolved(word, placeholders, executor_input, str(folder)) for word in found]

        program = "tests.vertex.server.pipelines.mounted"
        try:
            command = [word.replace("kfp.dsl.executor_main", program) for word in words(executor.get("command", []))]
            arguments = words(executor.get("args", []))
        except UnknownPlaceholderError as error:
            raise StepFailedError(str(error)) from None
        labels = {RUN_LABEL: placeholders["pipeline_job_uuid"]}
        environment = {
            **{each["name"]: each["value"] for each in executor.get("env", [])},
            "VERTEX_AI_PIPELINES_RUN_LABELS": json.dumps({**labels, **dict(self.job.labels)}),
            VARIABLE: str(folder),
        }
        container = {
            "image_uri": executor["image"],
            "command": command,
            "args": arguments,
            "env": [{"name": name, "value": value} for name, value in environment.items()],
        }
        pool = {"machine_spec": {"machine_type": _MACHINE}, "replica_count": 1, "container_spec": container}
        return v1.CustomJob(
            display_name=f"{self.id[:60]}-{task.name[:60]}", labels=labels, job_spec={"worker_pool_specs": [pool]}
        )

    def _run_job(self, task: Task, job: v1.CustomJob) -> None:
        services = self.services
        with services.state.changed:
            name = services.jobs.create("/".join(self.job.name.split("/")[:4]), job, step=True).name
            self._running.add(name)
            task.show_job(name)
        if self.cancelled.is_set():
            services.jobs.cancel(name)
        ended = services.state.until(lambda: _if_ended(services.state, name))
        with services.state.changed:
            self._running.discard(name)
        if ended.state == job_run.CANCELLED:
            raise RunCancelledError
        if ended.state != job_run.SUCCEEDED:
            raise StepFailedError(ended.error.message)

    def _output_artifacts(self, component: Json, where: str) -> Artifacts:
        """Make the artifacts that a step is to fill."""
        definitions = component.get("outputDefinitions", {}).get("artifacts", {})
        made: Artifacts = {}
        for name, definition in definitions.items():
            kind = definition["artifactType"]
            artifact = self.services.metadata.keep(
                v1.Artifact,
                "artifacts",
                display_name=name,
                uri=f"{where}/{name}",
                schema_title=kind.get("schemaTitle", ""),
                schema_version=kind.get("schemaVersion", ""),
                state=v1.Artifact.State.PENDING,
            )
            made[name] = [artifact]
        return made

    def _outputs(self, component: Json, executor_input: Json, made: Artifacts) -> Values:
        """Return what a step has left, by what it wrote of it."""
        path = Path(executor_input["outputs"]["outputFile"])
        written = json.loads(path.read_text()) if path.exists() else {}
        definitions = component.get("outputDefinitions", {}).get("parameters", {})
        parameters = {}
        for name in definitions:
            file = Path(executor_input["outputs"]["parameters"][name]["outputFile"])
            if name in written.get("parameterValues", {}):
                parameters[name] = written["parameterValues"][name]
            elif file.exists():
                text = file.read_text()
                parameters[name] = text if definitions[name]["parameterType"] == "STRING" else json.loads(text)
        state = self.services.state
        artifacts: Artifacts = {}
        for name, (artifact,) in made.items():
            found = written.get("artifacts", {}).get(name, {}).get("artifacts", [{}])[0]
            with state.changed:
                kept = state.get(v1.Artifact, artifact.name)
                kept.uri = found.get("uri") or kept.uri
                kept.metadata = whole(found.get("metadata") or {})
                kept.state = v1.Artifact.State(v1.Artifact.State.LIVE)
                artifacts[name] = [state.copy(v1.Artifact, artifact.name)]
        return Values(whole(parameters), artifacts)


def _if_ended(state: State, name: str) -> v1.CustomJob | None:
    found = state.copy(v1.CustomJob, name)
    return found if found.state in job_run.ENDED else None


def _executor_input(inputs: Values, made: Artifacts, component: Json, where: str, folder: Path) -> Json:
    """Return kfp's ExecutorInput as JSON; files are where this machine has the bucket."""
    local = f"{folder}/{where.removeprefix('gs://')}"
    definitions = component.get("outputDefinitions", {}).get("parameters", {})
    return {
        "inputs": {"parameterValues": inputs.parameters, "artifacts": executor_artifacts(inputs.artifacts)},
        "outputs": {
            "parameters": {name: {"outputFile": f"{local}/{name}"} for name in definitions},
            "artifacts": executor_artifacts(made),
            "outputFile": f"{local}/executor_output.json",
        },
    }


def _cache_key(component: Json, executor: Json, inputs: Values) -> str:
    artifacts = {name: [each.name for each in found] for name, found in inputs.artifacts.items()}
    content: Mapping[str, Any] = {
        "component": component,
        "executor": {key: executor.get(key) for key in ("image", "command", "args", "env")},
        "parameters": inputs.parameters,
        "artifacts": artifacts,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
