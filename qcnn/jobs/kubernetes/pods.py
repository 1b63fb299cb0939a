"""Processes of a job, derived from its pods and events (core/v1), and supervision of their startup."""

import collections
import dataclasses
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from qcnn.errors import ConfigError, service_message
from qcnn.jobs.kubernetes.api import EVENTS, NamespaceClient
from qcnn.jobs.kubernetes.manifest import JobKind, is_suspended
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
    """

    started: bool
    exit_code: int | None
    out_of_memory: bool
    pending_reason: str | None


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
    return ContainerState(
        started=started,
        exit_code=terminated["exitCode"] if terminated else None,
        out_of_memory=terminated is not None and terminated.get("reason") == "OOMKilled",
        pending_reason=None if started else _pending_reason(status, [state, *states.values()]),
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
    """Return the process in a pod of a job."""
    metadata = pod["metadata"]
    labels = metadata["labels"]
    container = read_container(pod, kind.container)
    return PodProcess(
        pod=metadata["name"],
        uid=metadata["uid"],
        role=labels[kind.role_label],
        index=int(labels[kind.index_label]) if kind.index_label else 0,
        started=container.started,
        exit_code=container.exit_code,
        is_terminating="deletionTimestamp" in metadata,
        out_of_memory=container.out_of_memory,
        pending_reason=container.pending_reason,
        container=kind.container,
        attempt=int(labels.get(kind.attempt_label, 0)),
    )


def processes_of_job(pods: Iterable[dict[str, Any]], job: dict[str, Any], kind: JobKind) -> list[PodProcess]:
    """Return the processes of a job.

    Args:
        pods: Pods with the label of the job. Pods of an earlier job of the same name are ignored.
        job: Job, as the API returned it.
        kind: Type of the job.
    """
    owned = [pod for pod in pods if _is_of_job(pod["metadata"], job["metadata"], kind)]
    # An earlier pod of a process may still be terminating.
    newest: dict[str, tuple[tuple[int, str], PodProcess]] = {}
    for pod in owned:
        process = read_process(pod, kind)
        age = (process.attempt, str(pod["metadata"]["creationTimestamp"]))
        if process.name not in newest or age >= newest[process.name][0]:
            newest[process.name] = age, process
    return [process for _, process in newest.values()]


def _is_of_job(pod: Mapping[str, Any], job: Mapping[str, Any], kind: JobKind) -> bool:
    if not kind.owns_pods:
        # An earlier job has been deleted with its pods before this one was created.
        return str(pod["creationTimestamp"]) >= str(job["creationTimestamp"])
    return any(owner["uid"] == job["uid"] for owner in pod.get("ownerReferences", ()))


def root_cause_process(processes: Iterable[PodProcess]) -> PodProcess | None:
    """Return the process that most likely caused the failure of the job, or None if no process has failed.

    A permanent error takes precedence over a killed process, and both over a process that ended because another did.
    """
    failed = [process for process in processes if process.exit_code]
    return min(failed, key=lambda process: (not process.is_permanent_error, process.ended_by_peer), default=None)


def _pending_reason(status: Mapping[str, Any], states: Iterable[Mapping[str, Any]]) -> str | None:
    """Return why a pod has not started, from its conditions and the states of its containers."""
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"cannot be scheduled: {service_message(condition.get('message', condition.get('reason', '')))}"
    for state in states:
        waiting = state.get("waiting", {})
        if waiting and waiting.get("reason") not in NORMAL_WAITING:
            return f"cannot start, {waiting.get('reason')}: {service_message(waiting.get('message', ''))}"
    return None


# The kubelet reports the cause of a failed pull once, and then only the state, as "Error: ImagePullBackOff".
_STATE_NAME_ONLY = re.compile(r"Error: \w+")
# As in 'Error creating: pods "a-worker-0" is forbidden: exceeded quota'.
_POD = re.compile(r'pods "([^"]+)"')


def last_warning(warnings: Iterable[Mapping[str, Any]], reason: str = "", pod: str = "") -> str | None:
    """Return the last matching warning as a single line, or None if there is no such warning.

    A warning with a cause is preferred to a warning that contains only the state.

    Args:
        warnings: Warning events of one object.
        reason: Prefix of the reason of the event.
        pod: Name of a pod, or its beginning up to "-"; events that name another pod are ignored.
    """
    matching = [
        event
        for event in warnings
        if event["reason"].startswith(reason) and all(_names(pod, found) for found in _POD.findall(event["message"]))
    ]
    if not matching:
        return None
    last = max(matching, key=lambda event: (not _STATE_NAME_ONLY.fullmatch(event["message"]), _event_time(event)))
    return f"cannot start, {last['reason']}: {service_message(last['message'])}"


def _names(pod: str, found: str) -> bool:
    return found.startswith(pod) if not pod or pod.endswith("-") else found == pod


def count_restarts(
    job: Mapping[str, Any], scheduled: Iterable[Mapping[str, Any]], processes: Iterable[PodProcess]
) -> int:
    """Return the number of restarts of a training job since its last suspension.

    The attempts of pods count if they have a label with it. Otherwise the starts of pods with one name count; those
    before the retention time of events are not known. The operator's count of restarts is not reliable,
    because the operator drops events if there are many.

    Args:
        job: Training job, as the API returned it.
        scheduled: "Scheduled" events of pods, one for each start of a process.
        processes: Current processes of the job.
    """
    processes = list(processes)
    if attempts := [process.attempt for process in processes if process.attempt]:
        return max(attempts)
    metadata, prefix = job["metadata"], f"{job['metadata']['name']}-"
    began = max([metadata["creationTimestamp"], *_suspensions(job)])
    objects = [event["involvedObject"] for event in scheduled if event["metadata"]["creationTimestamp"] >= began]
    pods = {(each["name"], each["uid"]) for each in objects if each["name"].startswith(prefix)}
    pods |= {(process.pod, process.uid) for process in processes}
    return max(collections.Counter(name for name, _ in pods).values(), default=1) - 1


def _event_time(event: Mapping[str, Any]) -> str:
    return event.get("lastTimestamp") or event.get("eventTime") or ""


def _suspensions(job: Mapping[str, Any]) -> list[str]:
    """Return the time at which a job was last suspended or resumed, if any."""
    conditions = job.get("status", {}).get("conditions", ())
    return [each["lastTransitionTime"] for each in conditions if each["type"] == "Suspended"]


logger = logging.getLogger("qcnn")

# Interval between requests for events while processes have not started.
_EVENTS_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class EventQuery:
    """Query for warning events that explain why a process has not started.

    Attributes:
        selector: Selector of the events.
        reason: Prefix of the reason of the events.
        pod: Name of a pod, or its beginning up to "-"; events that name another pod are ignored.
        name: Beginning of the name of the object of the events.
    """

    selector: str
    reason: str
    pod: str = ""
    name: str = ""

    def last_warning(self, api: NamespaceClient) -> str | None:
        """Return the last matching warning as a single line, or None if there is no such warning."""
        warnings = api.find(EVENTS, fieldSelector=f"{self.selector},type=Warning")
        if self.name:
            warnings = [each for each in warnings if each["involvedObject"]["name"].startswith(self.name)]
        return last_warning(warnings, self.reason, self.pod)


def event_query(job: Mapping[str, Any], kind: JobKind, process: PodProcess | None, pod: str = "") -> EventQuery:
    """Return the query for a process that has not started.

    Args:
        job: Job, as the API returned it.
        kind: Type of the job.
        process: Process, or None if it has no pod. In that case, the events of the job contain the cause.
        pod: Name of the missing pod; by default, the events of all missing pods match.
    """
    if process:
        return EventQuery(f"involvedObject.uid={process.uid}", "")
    if kind.owns_pods:
        return EventQuery(f"involvedObject.uid={job['metadata']['uid']}", "FailedCreate", pod)
    # The pods are created by Jobs, whose names begin with that of the job.
    return EventQuery("involvedObject.kind=Job", "FailedCreate", pod, f"{job['metadata']['name']}-")


@dataclasses.dataclass(frozen=True)
class PendingProcesses:
    """Processes that have not started, by name.

    Attributes:
        since: Time in seconds since which processes are pending, or None if all have started.
        processes: Pending processes; None for a process without a pod.
        reasons: Known reasons why processes are pending.
    """

    since: float | None
    processes: Mapping[str, PodProcess | None]
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def observe(
        self, expected: Sequence[str], processes: Sequence[PodProcess], *, suspended: bool, now: float
    ) -> "PendingProcesses":
        """Return the pending processes after an observation of all existing pods.

        Args:
            expected: Names of all processes.
            processes: Processes that have a pod.
            suspended: Whether the job is suspended, so that no process is pending.
            now: Time in seconds.
        """
        by_name = {process.name: process for process in processes}
        pending = {name: by_name.get(name) for name in expected if name not in by_name or not by_name[name].started}
        if suspended or not pending:
            return PendingProcesses(since=None, processes={})
        reasons = {
            name: process.pending_reason for name, process in pending.items() if process and process.pending_reason
        }
        since = now if self.since is None else self.since
        return PendingProcesses(since, pending, {**self.reasons, **reasons})

    def with_reason(self, name: str, reason: str) -> "PendingProcesses":
        """Return the pending processes with a reason from an event."""
        return dataclasses.replace(self, reasons={**self.reasons, name: reason})

    def next_to_query(self) -> str | None:
        """Return the name of a process without a pod, or without a reason, or None."""
        missing = [name for name, process in self.processes.items() if process is None]
        unexplained = [name for name, process in self.processes.items() if process and not process.pending_reason]
        return next(iter(missing + unexplained), None)

    def describe(self) -> str:
        """Return the known reasons why processes are pending, or the names of the processes."""
        pending = sorted(self.processes)
        known = [f"{name} {self.reasons[name]}" for name in pending if name in self.reasons]
        return "; ".join(known) or ", ".join(pending)


class StartupMonitor:
    """Monitor for the start of the processes of a job, including restarts."""

    def __init__(
        self,
        api: NamespaceClient,
        kind: JobKind,
        job: dict[str, Any],
        expected: Sequence[str],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._kind = kind
        self._job = job
        self._expected = expected
        self._seconds = seconds
        self._clock = clock
        self._pending = (
            PendingProcesses(None, {}) if is_suspended(job) else PendingProcesses(clock(), dict.fromkeys(expected))
        )
        self._events_at = clock() + _EVENTS_SECONDS

    @property
    def is_pending(self) -> bool:
        """Whether a process has not started."""
        return self._pending.since is not None

    def observe(self, processes: Sequence[PodProcess], *, suspended: bool) -> None:
        """Record all processes that have a pod, and whether the job is suspended."""
        now = self._clock()
        if not self.is_pending:
            self._events_at = now + _EVENTS_SECONDS
        self._update(self._pending.observe(self._expected, processes, suspended=suspended, now=now))

    def check(self) -> None:
        """Request the events of a pending process whose pod contains no reason.

        Raises:
            ConfigError: If processes are pending for longer than the timeout.
        """
        if self._pending.since is None:
            return
        now = self._clock()
        if now >= self._events_at:
            self._events_at = now + _EVENTS_SECONDS
            name = self._pending.next_to_query()
            if name and (
                reason := event_query(self._job, self._kind, self._pending.processes[name]).last_warning(self._api)
            ):
                self._update(self._pending.with_reason(name, reason))
        if now - self._pending.since > self._seconds:
            description, name = self._pending.describe(), self._job["metadata"]["name"]
            raise ConfigError(f"not started after {self._seconds:g} s: {description}. Given: {name}")

    def _update(self, pending: PendingProcesses) -> None:
        """Log the first reason of each process.

        Later reasons are not logged, because a failed image pull alternates between two.
        """
        for name, reason in pending.reasons.items():
            if name not in self._pending.reasons:
                logger.warning("%s %s", name, reason)
        self._pending = pending
