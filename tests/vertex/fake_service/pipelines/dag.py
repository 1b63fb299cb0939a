"""Execution of a pipeline's tasks: order, conditions, loops and inputs."""

import concurrent.futures
import json
from collections.abc import Mapping
from typing import Any

from google.cloud import aiplatform_v1 as v1

from tests.vertex.fake_service.errors import StatusError
from tests.vertex.fake_service.pipelines.conditions import holds, select
from tests.vertex.fake_service.pipelines.details import Task
from tests.vertex.fake_service.pipelines.placeholders import UnknownPlaceholderError, resolve
from tests.vertex.fake_service.pipelines.run import Run, RunCancelledError, StepFailedError, Values
from tests.vertex.fake_service.pipelines.spec import Json, typed
from tests.vertex.fake_service.pipelines.step import Step

_STATES = v1.PipelineTaskDetail.State
_COMPLETED = "ALL_UPSTREAM_TASKS_COMPLETED"
_DAG = "system.DagExecution"


class Dag:
    """One execution of a component that consists of tasks."""

    def __init__(self, run: Run, component: Json, inputs: Values, task: Task) -> None:
        self._run, self._component, self._inputs, self._task = run, component, inputs, task
        self._tasks: dict[str, Json] = component["dag"]["tasks"]
        # Outputs of each ended task; None if it failed or was not triggered.
        self._ended: dict[str, Values | None] = {}
        self._failures: list[str] = []

    def execute(self) -> Values:
        """Run all tasks and return the outputs of the component.

        Raises:
            StepFailedError: If a task failed. Tasks that do not depend on it have run.
            RunCancelledError: If the run is being cancelled.
        """
        waiting = {name: _upstream(task) for name, task in self._tasks.items()}
        with concurrent.futures.ThreadPoolExecutor(max(1, len(waiting))) as pool:
            running: dict[concurrent.futures.Future[Values | None], str] = {}
            while waiting or running:
                for name in [name for name, upstream in waiting.items() if upstream <= set(self._ended)]:
                    del waiting[name]
                    running[pool.submit(self._execute_task, name)] = name
                done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for each in done:
                    self._ended[running.pop(each)] = self._result(each)
        if self._run.cancelled.is_set():
            raise RunCancelledError
        if self._failures:
            raise StepFailedError("; ".join(self._failures))
        return self._outputs()

    def _result(self, ended: "concurrent.futures.Future[Values | None]") -> Values | None:
        try:
            return ended.result()
        except (StepFailedError, UnknownPlaceholderError, StatusError) as error:
            self._failures.append(str(error))
        except RunCancelledError:
            pass
        return None

    def _execute_task(self, name: str) -> Values | None:
        spec = self._tasks[name]
        task = Task(self._run.services.state, self._run.job, name, self._task)
        policy = spec.get("triggerPolicy", {})
        upstream = _upstream(spec)
        is_wanted = policy.get("strategy") == _COMPLETED or all(self._ended[each] is not None for each in upstream)
        if not is_wanted or self._run.stopped.is_set():
            task.move_to(_STATES.NOT_TRIGGERED)
            return None
        try:
            if self._run.cancelled.is_set():
                raise RunCancelledError
            component = self._component_of(spec)
            inputs = self._task_inputs(spec, component, task)
            condition = policy.get("condition")
            if condition and not holds(condition, inputs.parameters):
                task.move_to(_STATES.NOT_TRIGGERED)
                return None
            return self._start(spec, component, inputs, task)
        except RunCancelledError:
            task.move_to(_STATES.CANCELLED)
            raise
        except (StepFailedError, UnknownPlaceholderError, StatusError) as error:
            self._run.handle_failure()
            task.move_to(_STATES.FAILED, str(error))
            raise StepFailedError(
                f"The DAG failed because some tasks failed. The failed tasks are: [{name}]. {error}"
            ) from None

    def _start(self, spec: Json, component: Json, inputs: Values, task: Task) -> Values:
        if "parameterIterator" in spec:
            return self._loop(spec, component, inputs, task)
        if "dag" in component:
            return self._nested(component, inputs, task)
        return Step(self._run, task, component, inputs).execute(
            cached=spec.get("cachingOptions", {}).get("enableCache", False),
            retries=spec.get("retryPolicy", {}).get("maxRetryCount", 0),
        )

    def _nested(self, component: Json, inputs: Values, task: Task) -> Values:
        task.move_to(_STATES.RUNNING)
        outputs = Dag(self._run, component, inputs, task).execute()
        self._run.record(task, _DAG, inputs, outputs)
        task.move_to(_STATES.SUCCEEDED)
        return outputs

    def _loop(self, spec: Json, component: Json, inputs: Values, task: Task) -> Values:
        """Run a component once per item. Each output is the list of the outputs of the iterations."""
        iterator = spec["parameterIterator"]
        items = iterator["items"]
        found = json.loads(items["raw"]) if "raw" in items else inputs.parameters[items["inputParameter"]]
        task.move_to(_STATES.RUNNING)
        limit = spec.get("iteratorPolicy", {}).get("parallelismLimit", 0) or max(1, len(found))

        def once(index: int) -> Values:
            parameters = {**inputs.parameters, iterator["itemInput"]: found[index]}
            given = Values(typed(component["inputDefinitions"]["parameters"], parameters), inputs.artifacts)
            each = Task(self._run.services.state, self._run.job, f"{task.name}-{index}", task)
            try:
                return self._nested(component, given, each)
            except StepFailedError as error:
                each.move_to(_STATES.FAILED, str(error))
                raise
            except RunCancelledError:
                each.move_to(_STATES.CANCELLED)
                raise

        with concurrent.futures.ThreadPoolExecutor(limit) as pool:
            results = [each.result() for each in [pool.submit(once, index) for index in range(len(found))]]
        outputs = _collect(component, results)
        self._run.record(task, _DAG, inputs, outputs)
        task.move_to(_STATES.SUCCEEDED)
        return outputs

    def _component_of(self, spec: Json) -> Json:
        return self._run.spec["components"][spec["componentRef"]["name"]]  # type: ignore[no-any-return]

    def _task_inputs(self, spec: Json, component: Json, task: Task) -> Values:
        given = spec.get("inputs", {})
        definitions = component.get("inputDefinitions", {})
        found = {}
        for name, source in given.get("parameters", {}).items():
            value = self._parameter(source, task)
            if selector := source.get("parameterExpressionSelector"):
                value = select(selector, value)
            if value is not None:
                found[name] = value
        artifacts = {}
        for name, source in given.get("artifacts", {}).items():
            if "componentInputArtifact" in source:
                artifacts[name] = self._inputs.artifacts[source["componentInputArtifact"]]
            else:
                chosen = source["taskOutputArtifact"]
                artifacts[name] = self._of(chosen["producerTask"]).artifacts[chosen["outputArtifactKey"]]
        wanted = dict(definitions.get("parameters", {}))
        # Each iteration sets the item of its loop.
        wanted.pop(spec.get("parameterIterator", {}).get("itemInput"), None)
        return Values(typed(wanted, found), artifacts)

    def _parameter(self, source: Json, task: Task) -> Any:
        if "runtimeValue" in source:
            value = source["runtimeValue"]["constant"]
            if isinstance(value, str):
                given = {"inputs": {"parameterValues": self._inputs.parameters}}
                return resolve(value, self._run.placeholders(task), given)
            return value
        if "componentInputParameter" in source:
            return self._inputs.parameters.get(source["componentInputParameter"])
        chosen = source["taskOutputParameter"]
        return self._of(chosen["producerTask"]).parameters[chosen["outputParameterKey"]]

    def _of(self, task: str) -> Values:
        """Return the outputs of a task.

        Raises:
            StepFailedError: If it has no outputs.
        """
        found = self._ended[task]
        if found is None:
            raise StepFailedError(f"Task {task} has no outputs")
        return found

    def _outputs(self) -> Values:
        declared = self._component["dag"].get("outputs", {})
        parameters: Json = {}
        for name, spec in declared.get("parameters", {}).items():
            choices = spec.get("valueFromOneof", {}).get("parameterSelectors") or [spec["valueFromParameter"]]
            for chosen in choices:
                if found := self._ended.get(chosen["producerSubtask"]):
                    parameters[name] = found.parameters[chosen["outputParameterKey"]]
                    break
        artifacts = {}
        for name, spec in declared.get("artifacts", {}).items():
            for chosen in spec["artifactSelectors"]:
                if found := self._ended.get(chosen["producerSubtask"]):
                    artifacts[name] = found.artifacts[chosen["outputArtifactKey"]]
                    break
        return Values(parameters, artifacts)


def _upstream(task: Mapping[str, Any]) -> set[str]:
    inputs = task.get("inputs", {})
    sources = [*inputs.get("parameters", {}).values(), *inputs.get("artifacts", {}).values()]
    producers = {
        source[kind]["producerTask"]
        for source in sources
        for kind in ("taskOutputParameter", "taskOutputArtifact")
        if kind in source
    }
    return producers | set(task.get("dependentTasks", []))


def _collect(component: Json, results: list[Values]) -> Values:
    """Return the outputs of a loop: the parameters of its iterations as lists, and their artifacts in order."""
    declared = component["dag"].get("outputs", {})
    return Values(
        {name: [each.parameters.get(name) for each in results] for name in declared.get("parameters", {})},
        {
            name: [one for each in results for one in each.artifacts.get(name, [])]
            for name in declared.get("artifacts", {})
        },
    )
