"""Supervision of the startup of the processes of a job."""

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from qcnn.errors import ConfigError
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.manifest import JobKind, is_suspended
from qcnn.jobs.kubernetes.pod_events import event_query
from qcnn.jobs.kubernetes.pods import PodProcess
from qcnn.jobs.kubernetes.retry import DOCTOR

logger = logging.getLogger("qcnn")
# Interval between requests for events while processes have not started.
_EVENTS_SECONDS = 10.0


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
        return PendingProcesses(since, pending, {**self.lasting_reasons(pending), **reasons})

    def lasting_reasons(self, processes: Mapping[str, PodProcess | None]) -> dict[str, str]:
        """Return the known reasons without those of processes whose pod lacked a node and now has one."""

        def lacked_node(name: str) -> bool:
            before = self.processes.get(name)
            return before is not None and before.unschedulable

        return {
            name: reason
            for name, reason in self.reasons.items()
            if not (lacked_node(name) and (process := processes.get(name)) and not process.unschedulable)
        }

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
            raise ConfigError(f"not started after {self._seconds:g} s: {description}; see {DOCTOR}. Given: {name}")

    def _update(self, pending: PendingProcesses) -> None:
        """Log the first reason of each process, and again the first after its pod got a node.

        Later reasons are not logged, because a failed image pull alternates between two.
        """
        known = self._pending.lasting_reasons(pending.processes)
        for name, reason in pending.reasons.items():
            if name not in known:
                logger.warning("%s %s", name, reason)
        self._pending = pending
