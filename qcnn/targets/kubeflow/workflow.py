"""Steps of a run in its Argo Workflow and pods: states, reasons, exit codes and durations.

A Workflow has a node for each task of the pipeline, for each attempt of it, and for each pod (Argo Workflows 4.0). With
the configuration of KFP, a step `train` has the nodes RUN(0).root(0).train (Retry), RUN(0).root(0).train(0) (DAG) and
RUN(0).root(0).train(0).executor(0) (Pod).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from qcnn.errors import service_message
from qcnn.jobs.kubernetes.api import Resource
from qcnn.jobs.kubernetes.pods import NORMAL_WAITING, OUT_OF_MEMORY, read_container
from qcnn.jobs.references import parse_time
from qcnn.targets.base import PartStatus
from qcnn.targets.kubeflow.executor_lines import exit_status, failure_reason

Object = Mapping[str, Any]

WORKFLOWS = Resource("/apis/argoproj.io/v1alpha1", "workflows")
# Label of the Workflow and of all pods of a run, and container of a step (KFP 2.17).
RUN_LABEL, STEP_CONTAINER = "pipeline/runid", "main"
# KFP adds a task to each step and loop that resolves its inputs before it starts (backend/src/v2/driver).
DRIVER = "-driver"
NODE_NAME, _NODE_ID = "workflows.argoproj.io/node-name", "workflows.argoproj.io/node-id"
# Argo's phase of nodes whose dependencies failed.
_OMITTED = "Omitted"
_FAILURES = ("failed", "error")


@dataclasses.dataclass(frozen=True)
class Evidence:
    """Sources of reasons besides the Workflow and the pods.

    `warning` returns the reason in the events of a pod that has not started. `last_lines` returns the last lines of the
    step container of a pod.
    """

    warning: Callable[[Object], str | None]
    last_lines: Callable[[Object], Sequence[str]]


def steps_of(workflow: Object, pods: Sequence[Object], steps: Collection[str], evidence: Evidence) -> list[PartStatus]:
    """Return the status of the steps of a run, in order of their start.

    A driver is included if it failed or cannot start, because its step has no node then.

    Args:
        workflow: Workflow of the run, as the API returned it.
        pods: Pods of the run.
        steps: Names of the steps.
        evidence: Other sources of reasons.
    """
    nodes = sorted(workflow.get("status", {}).get("nodes", {}).values(), key=_start)
    pod_of = {pod["metadata"].get("annotations", {}).get(_NODE_ID): pod for pod in pods}
    # Node of the last pod of each node, by name.
    attempts = {name: node for node in nodes if node["type"] == "Pod" for name in _enclosing(node["name"])}
    found = []
    for node in nodes:
        name = str(node.get("displayName", ""))
        if node.get("phase") == _OMITTED or not (name in steps or name.endswith(DRIVER)):
            continue
        part = _part(node, attempts.get(node["name"], node), pod_of, evidence)
        if name in steps or part.state == "failed" or (part.state == "pending" and part.reason):
            found.append(part)
    return found


def message_of(workflow: Object) -> str:
    """Return why a Workflow failed or does not start, or an empty text."""
    return service_message(workflow.get("status", {}).get("message", ""))


def _part(node: Object, attempt: Object, pod_of: Mapping[str, Object], evidence: Evidence) -> PartStatus:
    """Return the status of a step.

    Args:
        node: Node of the step.
        attempt: Node of its last pod, or `node` if it has none.
        pod_of: Pods by the ID of their node.
        evidence: Other sources of reasons.
    """
    pod = pod_of.get(attempt["id"])
    state, reason, code = _state(node), "", _exit_code(attempt, pod)
    if state in ("running", "pending") and _state(attempt) == "pending":
        state, reason = "pending", _pending_reason(attempt, pod, evidence)
    elif state in _FAILURES:
        state, lines = "failed", evidence.last_lines(pod) if pod and read_container(pod, STEP_CONTAINER).started else ()
        reason = _failure(attempt, node, pod, lines)
        # The launcher exits with 1 for any exit code of the step.
        code = exit_status(lines) or code
    name = str(node["displayName"])
    return PartStatus(name, state, reason, pod["metadata"]["name"] if pod else "", code, _duration(node))


def _state(node: Object) -> str:
    return str(node.get("phase") or "Pending").lower()


def _exit_code(attempt: Object, pod: Object | None) -> int | None:
    reported = attempt.get("outputs", {}).get("exitCode")
    if reported is not None:
        return int(reported)
    return read_container(pod, STEP_CONTAINER).exit_code if pod else None


def _pending_reason(attempt: Object, pod: Object | None, evidence: Evidence) -> str:
    if pod and (reason := read_container(pod, STEP_CONTAINER).pending_reason):
        return reason
    message = service_message(attempt.get("message", ""))
    if message and message not in NORMAL_WAITING:
        return f"cannot start: {message}"
    return (evidence.warning(pod) if pod else None) or ""


def _failure(attempt: Object, node: Object, pod: Object | None, lines: Sequence[str]) -> str:
    """Return why a step failed: its memory, its last error, or the messages of the Workflow."""
    if pod and read_container(pod, STEP_CONTAINER).out_of_memory:
        return OUT_OF_MEMORY
    return failure_reason(lines) or service_message(attempt.get("message") or node.get("message", ""))


def _duration(node: Object) -> float | None:
    if not (node.get("startedAt") and node.get("finishedAt")):
        return None
    return (parse_time(node["finishedAt"]) - parse_time(node["startedAt"])).total_seconds()


def _enclosing(name: str) -> Iterator[str]:
    """Yield the name of a node, and the names of the tasks and attempts that contain it."""
    yield name
    for end in re.finditer(r"[(.]", name):
        yield name[: end.start()]


def _start(node: Object) -> tuple[str, str]:
    return str(node.get("startedAt") or ""), str(node["name"])
