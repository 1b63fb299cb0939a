"""Workflow, pods and logs of a run on the cluster of KUBECONFIG, and the steps of a run with or without them."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qcnn.errors import QcnnError
from qcnn.jobs.kubernetes.api import PODS, NamespaceClient
from qcnn.jobs.kubernetes.pod_events import EventQuery
from qcnn.jobs.kubernetes.pod_logs import LogCursor
from qcnn.jobs.kubernetes.pods import read_container
from qcnn.targets import following
from qcnn.targets.base import PartStatus
from qcnn.targets.cluster import cluster
from qcnn.targets.compiled_pipeline import step_names
from qcnn.targets.kubeflow.client import KfpBackend
from qcnn.targets.kubeflow.executor_lines import StepLines
from qcnn.targets.kubeflow.runs import ENDED, find_run, namespace_of, specification_of, task_parts
from qcnn.targets.kubeflow.workflow import (
    NODE_NAME,
    RUN_LABEL,
    STEP_CONTAINER,
    WORKFLOWS,
    Evidence,
    message_of,
    steps_of,
)

if TYPE_CHECKING:
    import kfp_server_api

# Time limit of a request for reasons: without the cluster, the pipelines API has states and durations.
_SECONDS = 3.0
# The launcher prints some lines after the last line of a step.
_LAST_LINES = 100


@dataclasses.dataclass(frozen=True)
class RunSteps:
    """Steps of a run. `message` is why the run failed or does not start, if no step has a reason."""

    parts: Sequence[PartStatus]
    message: str = ""


class StepReader:
    """Context manager that reads the steps of a run.

    Where KUBECONFIG reaches the cluster of the run, they are those of its Workflow, with reasons and exit codes. The
    pipelines API has only states and durations.
    """

    def __init__(self, backend: KfpBackend, run: kfp_server_api.V2beta1Run) -> None:
        self._namespace = namespace_of(backend, run.experiment_id)
        self._steps = step_names(specification_of(run))
        self._stack = contextlib.ExitStack()
        self._api: NamespaceClient | None = None

    def __enter__(self) -> StepReader:
        with contextlib.suppress(QcnnError):
            self._api = self._stack.enter_context(cluster(self._namespace)).limited_to(_SECONDS)
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def read(self, run: kfp_server_api.V2beta1Run) -> RunSteps:
        """Return the current steps of a run that the pipelines API has returned.

        A cluster that rejects a request or is unavailable is not used again.
        """
        try:
            if self._api and (found := _read(self._api, run.run_id, self._steps)):
                return found
        except QcnnError:
            self._api = None
        return RunSteps(task_parts(run, self._steps))


def read_steps(backend: KfpBackend, run: kfp_server_api.V2beta1Run) -> RunSteps:
    """Return the current steps of a run; see `StepReader`."""
    with StepReader(backend, run) as reader:
        return reader.read(run)


def _read(api: NamespaceClient, run: str, steps: frozenset[str]) -> RunSteps | None:
    """Return the steps of a run from its Workflow, or None if the cluster does not have it, or not any more."""
    selector = f"{RUN_LABEL}={run}"
    workflows = api.find(WORKFLOWS, labelSelector=selector)
    if not workflows:
        return None
    evidence = Evidence(
        lambda pod: EventQuery(f"involvedObject.uid={pod['metadata']['uid']}", "").last_warning(api),
        lambda pod: _last_lines(api, pod),
    )
    pods: list[dict[str, Any]] = []
    with contextlib.suppress(QcnnError):
        # Without permission to list pods, the Workflow has most reasons.
        pods = api.find(PODS, labelSelector=selector)
    parts = steps_of(workflows[0], pods, steps, evidence)
    return RunSteps(parts, "" if any(part.reason for part in parts) else message_of(workflows[0]))


def _last_lines(api: NamespaceClient, pod: Mapping[str, Any]) -> list[str]:
    """Return the last lines of a step, or none if its pod or the permission to read its log is missing."""
    with contextlib.suppress(QcnnError):
        log = api.log(pod["metadata"]["name"], STEP_CONTAINER, "", follow=False, last=_LAST_LINES)
        return [line for _, line in log]
    return []


def run_logs(backend: KfpBackend, job: str, *, follow: bool, all_containers: bool) -> Iterator[str]:
    """Yield the log lines of a run, read from its pods on the cluster of KUBECONFIG; see `RunLogs`.

    Args:
        backend: KFP backend.
        job: ID or name of the run.
        follow: Whether to continue until the run ends.
        all_containers: Whether to include the lines of executors, and those of all containers and drivers.

    Raises:
        BackendError: If the run does not exist, or the backend rejects the request or is unavailable.
    """
    run = find_run(backend, job)
    with cluster(namespace_of(backend, run.experiment_id)) as api:
        logs = RunLogs(api, run.run_id, all_containers=all_containers)
        while True:
            # Checked before the lines are read, so that no line of an ended run is missed.
            has_ended = find_run(backend, run.run_id).state in ENDED
            yield from logs.new()
            if not follow or has_ended:
                return
            time.sleep(following.INTERVAL)


# Names of the pods of steps, and the number of an attempt in the names of nodes.
_STEP_POD = "-impl-"
_ATTEMPT = re.compile(r"\(\d+\)$")


class RunLogs:
    """Reader of the logs of a run that returns each line once over several requests.

    Args:
        api: Client for the namespace of the run.
        run: ID of the run.
        all_containers: Whether to include the lines of executors, and those of all containers and drivers.
    """

    def __init__(self, api: NamespaceClient, run: str, *, all_containers: bool) -> None:
        self._api, self._run, self._all_containers = api, run, all_containers
        self._cursors: dict[tuple[str, str], LogCursor] = {}
        self._filters: dict[str, StepLines] = {}

    def new(self) -> Iterator[str]:
        """Yield new lines, by the start of the pods, each with the name of its step."""
        for pod in sorted(self._api.find(PODS, labelSelector=f"{RUN_LABEL}={self._run}"), key=_start_time):
            if self._all_containers:
                for container in _containers(pod):
                    prefix = _step(pod) if container == STEP_CONTAINER else f"{_step(pod)}/{container}"
                    yield from (f"[{prefix}] {line}" for line in self._lines(pod, container))
            elif _STEP_POD in pod["metadata"]["name"]:
                step = self._filters.setdefault(pod["metadata"]["name"], StepLines())
                own = filter(step.includes, self._lines(pod, STEP_CONTAINER))
                yield from (f"[{_step(pod)}] {line}" for line in own)

    def _lines(self, pod: Mapping[str, Any], container: str) -> Iterator[str]:
        if not read_container(pod, container).started:
            # The API server rejects requests for its log.
            return
        name = pod["metadata"]["name"]
        cursor = self._cursors.setdefault((name, container), LogCursor(name, container))
        yield from (line for _, line in cursor.new(self._api, follow=False))


def _containers(pod: Mapping[str, Any]) -> list[str]:
    """Return the names of the containers of a pod, in the order of their start."""
    spec = pod["spec"]
    return [each["name"] for each in (*spec.get("initContainers", ()), *spec["containers"])]


def _start_time(pod: Mapping[str, Any]) -> tuple[str, str]:
    return str(pod.get("status", {}).get("startTime", "")), str(pod["metadata"]["name"])


def _step(pod: Mapping[str, Any]) -> str:
    """Return the step name of a pod, whose node is for example RUN(0).root(0).STEP(0).executor(0)."""
    node = str(pod["metadata"].get("annotations", {}).get(NODE_NAME, ""))
    parts = [_ATTEMPT.sub("", part) for part in node.split(".")[1:]]
    named = [part for part in parts if part not in ("root", "executor") and not part.startswith("iteration")]
    return named[-1] if named else str(pod["metadata"]["name"])
