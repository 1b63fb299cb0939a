"""Processes of a job, derived from its pods and events (core/v1), and supervision of their startup."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from qcnn.errors import service_message
from qcnn.jobs.kubernetes.manifest import JobKind
from qcnn.process.exit_codes import RETRYABLE, is_permanent_error

# Waiting reasons of a container during a normal start.
NORMAL_WAITING = ("ContainerCreating", "PodInitializing")
OUT_OF_MEMORY = "used more memory than its limit"


@dataclasses.dataclass(frozen=True)
class ContainerState:
    """State of one container of a pod.

    Attributes:
        started: Whether the container has started.
        exit_code: Exit code, or None if the container has not exited.
        out_of_memory: Whether the container has exceeded its memory limit.
        pending_reason: Reason, as a single line, why the container has not started, or None if it has or if unknown.
        unschedulable: Whether the reason is that no node has room for the pod.
    """

    started: bool
    exit_code: int | None
    out_of_memory: bool
    pending_reason: str | None
    unschedulable: bool


def read_container(pod: Mapping[str, Any], name: str) -> ContainerState:
    """Return the state of a container of a pod.

    Another container of the pod, such as one that initializes it, may be the reason why the container has not started.

    Args:
        pod: Pod, as the API returned it.
        name: Name of the container.
    """
    status = pod.get("status", {})
    statuses = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    states = {each["name"]: each.get("state", {}) for each in statuses}
    state = states.pop(name, {})
    terminated = state.get("terminated")
    started = bool(terminated or "running" in state)
    scheduling = None if started else _scheduling_problem(status)
    return ContainerState(
        started=started,
        exit_code=terminated["exitCode"] if terminated else None,
        out_of_memory=terminated is not None and terminated.get("reason") == "OOMKilled",
        pending_reason=None if started else scheduling or _waiting_reason([state, *states.values()]),
        unschedulable=scheduling is not None,
    )


@dataclasses.dataclass(frozen=True)
class PodProcess:
    """Process of a job, as observed in one pod.

    Attributes:
        pod: Name of the pod.
        uid: UID of the pod.
        role: Role of the process.
        index: Index of the process in its role.
        started: Whether the container has started.
        exit_code: Exit code, or None if the process has not exited.
        is_terminating: Whether the pod is being deleted.
        out_of_memory: Whether the process has exceeded its memory limit.
        pending_reason: Reason, as a single line, why the process has not started, or None if it has or if unknown.
        unschedulable: Whether the reason is that no node has room for the pod.
        container: Name of the container.
        attempt: Number of restarts of the job before this pod, if its pods have a label with it.
    """

    pod: str
    uid: str
    role: str
    index: int
    started: bool
    exit_code: int | None
    is_terminating: bool
    out_of_memory: bool
    pending_reason: str | None
    unschedulable: bool
    container: str
    attempt: int = 0

    @property
    def name(self) -> str:
        """Role and index, such as "worker 0"."""
        return f"{self.role} {self.index}"

    @property
    def is_permanent_error(self) -> bool:
        """Whether the process failed with a permanent error, after which the operator does not restart it."""
        return self.exit_code is not None and is_permanent_error(self.exit_code)

    @property
    def ended_by_peer(self) -> bool:
        """Whether the process exited because another process ended, according to its exit code."""
        return self.exit_code == RETRYABLE

    @property
    def lost(self) -> bool:
        """Whether the process failed with a retryable error while its pod was not being deleted."""
        return bool(self.exit_code) and not self.is_permanent_error and not self.is_terminating


def read_process(pod: dict[str, Any], kind: JobKind) -> PodProcess:
    """Return the process in a pod of a job. Its role is empty if it is not one of the job's."""
    metadata = pod["metadata"]
    labels = metadata["labels"]
    container = read_container(pod, kind.container)
    return PodProcess(
        pod=metadata["name"],
        uid=metadata["uid"],
        role=kind.role_of(labels),
        index=int(labels[kind.index_label]) if kind.index_label else 0,
        started=container.started,
        exit_code=container.exit_code,
        is_terminating="deletionTimestamp" in metadata,
        out_of_memory=container.out_of_memory,
        pending_reason=container.pending_reason,
        unschedulable=container.unschedulable,
        container=kind.container,
        attempt=int(labels.get(kind.attempt_label, 0)),
    )


def processes_of_job(pods: Iterable[dict[str, Any]], job: dict[str, Any], kind: JobKind) -> list[PodProcess]:
    """Return the processes of a job.

    Args:
        pods: Pods, of which those of other jobs and of an earlier job of the same name are ignored.
        job: Job, as the API returned it.
        kind: Type of the job.
    """
    owned = [pod for pod in pods if _is_of_job(pod["metadata"], job["metadata"], kind)]
    # An earlier pod of a process may still be terminating.
    newest: dict[str, tuple[tuple[int, str], PodProcess]] = {}
    for pod in owned:
        process = read_process(pod, kind)
        if not process.role:
            continue
        age = (process.attempt, str(pod["metadata"]["creationTimestamp"]))
        if process.name not in newest or age >= newest[process.name][0]:
            newest[process.name] = age, process
    return [process for _, process in newest.values()]


def _is_of_job(pod: Mapping[str, Any], job: Mapping[str, Any], kind: JobKind) -> bool:
    if not kind.owns_pods:
        is_named = pod["labels"].get(kind.pod_label) == job["name"]
        # An earlier job has been deleted with its pods before this one was created.
        return is_named and str(pod["creationTimestamp"]) >= str(job["creationTimestamp"])
    return any(owner["uid"] == job["uid"] for owner in pod.get("ownerReferences", ()))


def root_cause_process(processes: Iterable[PodProcess]) -> PodProcess | None:
    """Return the process that most likely caused the failure of the job, or None if no process has failed.

    A permanent error takes precedence over a killed process, and both over a process that ended because another did.
    """
    failed = [process for process in processes if process.exit_code]
    return min(failed, key=lambda process: (not process.is_permanent_error, process.ended_by_peer), default=None)


def _scheduling_problem(status: Mapping[str, Any]) -> str | None:
    """Return why a pod has no node, or None if it has one."""
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"cannot be scheduled: {service_message(condition.get('message', condition.get('reason', '')))}"
    return None


def _waiting_reason(states: Iterable[Mapping[str, Any]]) -> str | None:
    """Return why the containers of a pod with a node have not started, from their states."""
    for state in states:
        waiting = state.get("waiting", {})
        if waiting and waiting.get("reason") not in NORMAL_WAITING:
            return f"cannot start, {waiting.get('reason')}: {service_message(waiting.get('message', ''))}"
    return None
