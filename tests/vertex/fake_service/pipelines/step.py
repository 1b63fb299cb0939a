"""Container step of a pipeline: runs as a custom job with mounted buckets."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.cloud import aiplatform_v1 as v1

from tests import forked_module
from tests.vertex.fake_service import job_run
from tests.vertex.fake_service.pipelines import mount
from tests.vertex.fake_service.pipelines.details import Artifacts, Task, executor_artifacts
from tests.vertex.fake_service.pipelines.mounted import VARIABLE
from tests.vertex.fake_service.pipelines.placeholders import UnknownPlaceholderError, resolve
from tests.vertex.fake_service.pipelines.run import RUN_LABEL, Run, RunCancelledError, StepFailedError, Values
from tests.vertex.fake_service.pipelines.spec import Json, whole
from tests.vertex.fake_service.state import State
from tests.vertex.fake_service.training.replica import READ_AT_START

_STATES = v1.PipelineTaskDetail.State
_EXECUTION = "system.ContainerExecution"
_MACHINE = "e2-standard-4"


class Step:
    """Task that runs a container."""

    def __init__(self, run: Run, task: Task, component: Json, inputs: Values) -> None:
        self._run, self._task, self._component, self._inputs = run, task, component, inputs
        self._executor = run.spec["deploymentSpec"]["executors"][component["executorLabel"]]["container"]

    def execute(self, *, cached: bool, retries: int) -> Values:
        """Run the step and return its outputs.

        Raises:
            StepFailedError: If all attempts failed.
            RunCancelledError: If the run is being cancelled.
        """
        cache, key = self._run.services.cache, _cache_key(self._component, self._executor, self._inputs)
        found = cache.get(key) if cached else None
        if found:
            self._run.record(self._task, _EXECUTION, self._inputs, found)
            self._task.move_to(_STATES.SKIPPED)
            return found
        self._task.move_to(_STATES.RUNNING)
        outputs = self._run_with_retries(retries)
        cache[key] = outputs
        self._run.record(self._task, _EXECUTION, self._inputs, outputs)
        self._task.move_to(_STATES.SUCCEEDED)
        return outputs

    def _run_with_retries(self, retries: int) -> Values:
        for attempt in range(retries + 1):
            try:
                return self._attempt()
            except StepFailedError:
                # Tests need no backoff.
                if attempt == retries:
                    raise
        raise AssertionError

    def _attempt(self) -> Values:
        if self._run.cancelled.is_set():
            raise RunCancelledError
        host, folder = self._run.services.storage_host(), self._run.services.folder / str(self._task.id)
        where = f"{self._run.root}/{self._run.job.name.split('/')[1]}/{self._run.id}/{self._task.name}_{self._task.id}"
        made = self._output_artifacts(where)
        executor_input = _executor_input(self._inputs, made, self._component, where, folder)
        mount.fill(host, folder, [each.uri for found in self._inputs.artifacts.values() for each in found])
        known = mount.marks(folder)
        job = self._custom_job(executor_input, folder)
        try:
            self._follow(self._run.start(self._task, job))
        finally:
            # gcsfuse writes through, so files of failed steps exist in the bucket, too.
            mount.copy_back(host, folder, known)
        return self._outputs(executor_input, made)

    def _custom_job(self, executor_input: Json, folder: Path) -> v1.CustomJob:
        placeholders = self._run.placeholders(self._task)

        def resolve_all(texts: list[str]) -> list[str]:
            return [resolve(text, placeholders, executor_input, str(folder)) for text in texts]

        program = "tests.forked_module tests.vertex.fake_service.pipelines.mounted"
        try:
            command = [
                text.replace("kfp.dsl.executor_main", program)
                for text in resolve_all(self._executor.get("command", []))
            ]
            arguments = resolve_all(self._executor.get("args", []))
        except UnknownPlaceholderError as error:
            raise StepFailedError(str(error)) from None
        labels = {RUN_LABEL: placeholders["pipeline_job_uuid"]}
        environment = {
            **{each["name"]: each["value"] for each in self._executor.get("env", [])},
            "VERTEX_AI_PIPELINES_RUN_LABELS": json.dumps({**labels, **dict(self._run.job.labels)}),
            VARIABLE: str(folder),
            **forked_module.variables(READ_AT_START),
        }
        container = {
            "image_uri": self._executor["image"],
            "command": command,
            "args": arguments,
            "env": [{"name": name, "value": value} for name, value in environment.items()],
        }
        pool = {"machine_spec": {"machine_type": _MACHINE}, "replica_count": 1, "container_spec": container}
        return v1.CustomJob(
            display_name=f"{self._run.id[:60]}-{self._task.name[:60]}",
            labels=labels,
            job_spec={"worker_pool_specs": [pool]},
        )

    def _follow(self, name: str) -> None:
        state = self._run.services.state
        ended = state.until(lambda: _if_ended(state, name))
        if ended.state == job_run.CANCELLED:
            raise RunCancelledError
        if ended.state != job_run.SUCCEEDED:
            raise StepFailedError(ended.error.message)

    def _output_artifacts(self, where: str) -> Artifacts:
        """Create the output artifacts of the step."""
        definitions = self._component.get("outputDefinitions", {}).get("artifacts", {})
        made: Artifacts = {}
        for name, definition in definitions.items():
            kind = definition["artifactType"]
            artifact = self._run.services.metadata.keep(
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

    def _outputs(self, executor_input: Json, made: Artifacts) -> Values:
        """Return the outputs of the step from the files that it wrote."""
        path = Path(executor_input["outputs"]["outputFile"])
        written = json.loads(path.read_text()) if path.exists() else {}
        definitions = self._component.get("outputDefinitions", {}).get("parameters", {})
        parameters = {}
        for name in definitions:
            file = Path(executor_input["outputs"]["parameters"][name]["outputFile"])
            if name in written.get("parameterValues", {}):
                parameters[name] = written["parameterValues"][name]
            elif file.exists():
                text = file.read_text()
                parameters[name] = text if definitions[name]["parameterType"] == "STRING" else json.loads(text)
        state = self._run.services.state
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
    """Return KFP's ExecutorInput as JSON, with paths of output files in the local folder of the bucket."""
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
