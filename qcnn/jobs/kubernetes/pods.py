"""What the pods of a job and their events say, why they do not start too, by pure functions (core/v1)."""

import collections
import dataclasses
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from qcnn.errors import ConfigError, single_line
from qcnn.jobs.kubernetes.api import EVENTS, NamespaceClient
from qcnn.jobs.kubernetes.manifest import CONTAINER, JobKind, is_suspended
from qcnn.startup import RETRYABLE, is_permanent_error

# Reasons for which a container waits while it starts normally; all others are trouble.
_NORMAL_WAITING = ("ContainerCreating", "PodInitializing")


@dataclasses.dataclass(frozen=True)
class PodProcess:
    """One process of a job.

    `exit_code` is None until it has ended. `trouble` says in one line why it has not started, None where it has or
    where that is not known.
    """

    pod: str
    uid: str
    role: str
    index: int
    started: bool
    exit_code: int | None
    is_terminating: bool
    out_of_memory: bool
    trouble: str | None

    @property
    def name(self) -> str:
        """Role and index."""
        return f"{self.role} {self.index}"

    @property
    def is_permanent_error(self) -> bool:
        """Whether it ended by a fault of its own, after which the operator does not start it again."""
        return self.exit_code is not None and is_permanent_error(self.exit_code)

    @property
    def ended_by_peer(self) -> bool:
        """Whether it ended because another process did, by its own exit code."""
        return self.exit_code == RETRYABLE

    @property
    def lost(self) -> bool:
        """Whether it failed neither by its own fault nor because it was told to end."""
        return bool(self.exit_code) and not self.is_permanent_error and not self.is_terminating


def read_process(pod: dict[str, Any], kind: JobKind) -> PodProcess:
    """Return what a pod of a job of this kind says of the process in it."""
    metadata, status = pod["metadata"], pod.get("status", {})
    labels = metadata["labels"]
    state: dict[str, Any] = {}
    for container in status.get("containerStatuses", ()):
        if container["name"] == CONTAINER:
            state = container.get("state", {})
    terminated = state.get("terminated")
    return PodProcess(
        pod=metadata["name"],
        uid=metadata["uid"],
        role=labels[kind.role_label],
        index=int(labels[kind.index_label]) if kind.index_label else 0,
        started=bool(terminated or "running" in state),
        exit_code=terminated["exitCode"] if terminated else None,
        is_terminating="deletionTimestamp" in metadata,
        out_of_memory=terminated is not None and terminated.get("reason") == "OOMKilled",
        trouble=_pending_reason(status, state),
    )


def of_job(found: Iterable[dict[str, Any]], job: dict[str, Any], kind: JobKind) -> list[PodProcess]:
    """Return the processes of a job; pods of an earlier job of its name, which have not gone yet, are none of them."""
    uid = job["metadata"]["uid"]
    own = (pod for pod in found if any(owner["uid"] == uid for owner in pod["metadata"].get("ownerReferences", ())))
    return [read_process(pod, kind) for pod in own]


def root_cause_process(processes: Iterable[PodProcess]) -> PodProcess | None:
    """Return a process that failed by its own fault, else one that was killed, else one that lost a peer, else None."""
    failed = [process for process in processes if process.exit_code]
    return min(failed, key=lambda process: (not process.is_permanent_error, process.ended_by_peer), default=None)


def _pending_reason(status: dict[str, Any], state: dict[str, Any]) -> str | None:
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"cannot be scheduled: {single_line(condition.get('message', condition.get('reason', '')))}"
    waiting = state.get("waiting", {})
    if waiting and waiting.get("reason") not in _NORMAL_WAITING:
        return f"cannot start, {waiting.get('reason')}: {single_line(waiting.get('message', ''))}"
    return None


# The kubelet reports the cause of a failed pull once, and then only the state's name, as "Error: ImagePullBackOff".
_STATE_NAME_ONLY = re.compile(r"Error: \w+")
# As in 'Error creating: pods "a-worker-0" is forbidden: exceeded quota'.
_POD = re.compile(r'pods "([^"]+)"')


def last_warning(warnings: Iterable[Mapping[str, Any]], reason: str = "", pod: str = "") -> str | None:
    """Return in one line the last of an object's warnings whose reason begins so, None if there is none.

    A warning that says why is preferred to those that only name the state. With `pod`, those that name another pod are
    left out.
    """
    telling = [
        event
        for event in warnings
        if event["reason"].startswith(reason) and (not pod or set(_POD.findall(event["message"])) <= {pod})
    ]
    if not telling:
        return None
    last = max(telling, key=lambda event: (not _STATE_NAME_ONLY.fullmatch(event["message"]), _event_time(event)))
    return f"cannot start, {last['reason']}: {single_line(last['message'])}"


def count_restarts(
    job: Mapping[str, Any], scheduled: Iterable[Mapping[str, Any]], processes: Iterable[PodProcess]
) -> int:
    """Return how often a TFJob was started again since its last suspension, or as far back as events are kept.

    `scheduled` are the events of pods that got a node: one for each time that a process was started. The operator's own
    count of restarts cannot be used, as it drops events where there are many.
    """
    metadata, prefix = job["metadata"], f"{job['metadata']['name']}-"
    began = max([metadata["creationTimestamp"], *_suspensions(job)])
    objects = [event["involvedObject"] for event in scheduled if event["metadata"]["creationTimestamp"] >= began]
    lives = {(found["name"], found["uid"]) for found in objects if found["name"].startswith(prefix)}
    lives |= {(process.pod, process.uid) for process in processes}
    return max(collections.Counter(name for name, _ in lives).values(), default=1) - 1


def _event_time(event: Mapping[str, Any]) -> str:
    return event.get("lastTimestamp") or event.get("eventTime") or ""


def _suspensions(job: Mapping[str, Any]) -> list[str]:
    """Return when a TFJob was last suspended or resumed."""
    conditions = job.get("status", {}).get("conditions", ())
    return [found["lastTransitionTime"] for found in conditions if found["type"] == "Suspended"]


logger = logging.getLogger("qcnn")

# How often events are asked for while processes have not started.
_EVENTS_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class EventQuery:
    """Which warnings say why a process has not started: those about the object of this uid whose reason begins so.

    With `pod`, those that name another pod are left out.
    """

    uid: str
    reason: str
    pod: str = ""

    def ask(self, api: NamespaceClient) -> str | None:
        """Return the last of them in one line, None if there is none."""
        warnings = api.find(EVENTS, fieldSelector=f"involvedObject.uid={self.uid},type=Warning")
        return last_warning(warnings, self.reason, self.pod)


def event_query(job: Mapping[str, Any], process: PodProcess | None, pod: str = "") -> EventQuery:
    """Return what to ask about a process that has not started; where it has no pod, the job's events say why.

    Those are events of all processes that have no pod, but for what they say of others than `pod` if that is given.
    """
    return EventQuery(process.uid, "") if process else EventQuery(job["metadata"]["uid"], "FailedCreate", pod)


@dataclasses.dataclass(frozen=True)
class PendingProcesses:
    """Which processes have not started, by their names, and why, as far as is known.

    `processes` has None for one without a pod. `since` is when the first of them was seen not to have started, None
    where all have.
    """

    since: float | None
    processes: Mapping[str, PodProcess | None]
    troubles: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def observe(
        self, expected: Sequence[str], processes: Sequence[PodProcess], *, suspended: bool, now: float
    ) -> "PendingProcesses":
        """Return what is known once all pods that are there were looked at; no pod of a suspended job is waited for."""
        by_name = {process.name: process for process in processes}
        waiting = {name: by_name.get(name) for name in expected if name not in by_name or not by_name[name].started}
        if suspended or not waiting:
            return PendingProcesses(since=None, processes={})
        troubles = {name: process.trouble for name, process in waiting.items() if process and process.trouble}
        since = now if self.since is None else self.since
        return PendingProcesses(since, waiting, {**self.troubles, **troubles})

    def with_reason(self, name: str, trouble: str) -> "PendingProcesses":
        """Return what is known once events have told why a process does not start."""
        return dataclasses.replace(self, troubles={**self.troubles, name: trouble})

    def next_to_query(self) -> str | None:
        """Return which process the events are to tell about: one without a pod, else one whose pod says nothing."""
        missing = [name for name, process in self.processes.items() if process is None]
        silent = [name for name, process in self.processes.items() if process and not process.trouble]
        return next(iter(missing + silent), None)

    def describe(self) -> str:
        """Return why processes have not started; where nothing is known, which."""
        waiting = sorted(self.processes)
        known = [f"{name} {self.troubles[name]}" for name in waiting if name in self.troubles]
        return "; ".join(known) or ", ".join(waiting)


class StartupMonitor:
    """Watches over the start of the processes of a job, by their names; those that are started again are included."""

    def __init__(
        self,
        api: NamespaceClient,
        job: dict[str, Any],
        expected: Sequence[str],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._job = job
        self._expected = expected
        self._seconds = seconds
        self._clock = clock
        self._waiting = (
            PendingProcesses(None, {}) if is_suspended(job) else PendingProcesses(clock(), dict.fromkeys(expected))
        )
        self._events_at = clock() + _EVENTS_SECONDS

    @property
    def is_pending(self) -> bool:
        """Whether a process is waited for."""
        return self._waiting.since is not None

    def observe(self, processes: Sequence[PodProcess], *, suspended: bool) -> None:
        """Take note of all processes that have a pod; nothing is waited for while the job is suspended."""
        now = self._clock()
        if not self.is_pending:
            self._events_at = now + _EVENTS_SECONDS
        self._note(self._waiting.observe(self._expected, processes, suspended=suspended, now=now))

    def check(self) -> None:
        """Ask for events where pods say nothing.

        Raises:
            ConfigError: processes have been waited for long enough.
        """
        if self._waiting.since is None:
            return
        now = self._clock()
        if now >= self._events_at:
            self._events_at = now + _EVENTS_SECONDS
            name = self._waiting.next_to_query()
            if name and (trouble := event_query(self._job, self._waiting.processes[name]).ask(self._api)):
                self._note(self._waiting.with_reason(name, trouble))
        if now - self._waiting.since > self._seconds:
            reason, name = self._waiting.describe(), self._job["metadata"]["name"]
            raise ConfigError(f"not started after {self._seconds:g} s: {reason}. Given: {name}")

    def _note(self, waiting: PendingProcesses) -> None:
        """Log a process' first trouble; the two of an image that cannot be pulled would else take turns for ever."""
        for name, trouble in waiting.troubles.items():
            if name not in self._waiting.troubles:
                logger.warning("%s %s", name, trouble)
        self._waiting = waiting
