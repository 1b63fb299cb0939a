"""Watcher of a job on a cluster, which forwards the output of its processes."""

import contextlib
import dataclasses
import functools
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from qcnn.errors import QcnnError, RetryableError, TrainingError
from qcnn.jobs.job import last_error_line
from qcnn.jobs.kubernetes import pods
from qcnn.jobs.kubernetes.api import PODS, NamespaceClient
from qcnn.jobs.kubernetes.create_or_adopt import cancel_unwatched
from qcnn.jobs.kubernetes.manifest import JobKind, condition, is_suspended
from qcnn.jobs.kubernetes.pod_logs import PodLog
from qcnn.jobs.kubernetes.pods import PodProcess
from qcnn.jobs.kubernetes.restart_policy import POD_SECONDS, Action, Decision, Observation, RestartTracker, decide
from qcnn.jobs.kubernetes.startup_monitor import StartupMonitor
from qcnn.monitoring import logs

logger = logging.getLogger("qcnn")

Objects = dict[str, dict[str, Any]]

# Interval between checks of the startup timeout.
_CHECK_SECONDS = 1.0
# Time limit for the remaining log lines of all processes after the end of the job.
_LOG_SECONDS = 10.0


# Called with a job, as the API returned it, and its number of restarts.
Observer = Callable[[dict[str, Any], int], None]


def ignore(job: dict[str, Any], restarts: int) -> None:
    """Observer that does nothing."""


class LostError(RetryableError):
    """A job failed with a retryable error, so that a new job can resume from the last checkpoint.

    Attributes:
        reason: Message without the name of the job.
    """

    def __init__(self, reason: str, name: str) -> None:
        super().__init__(f"{reason}. Given: {name}")
        self.reason = reason


class JobAbandonedError(LostError):
    """The operator has failed a job although restarts are left, so that a new job must replace it.

    Attributes:
        tracker: Restart history, including the loss that has ended the job.
    """

    def __init__(self, reason: str, name: str, tracker: RestartTracker) -> None:
        super().__init__(reason, name)
        self.tracker = tracker


class JobWatcher:
    """Watcher of one job until it ends.

    Args:
        api: Client of the namespace.
        kind: Type of the job.
        job: Job, as the API returned it.
        processes: Role and index of each process.
        restarts: Maximum number of restarts, or None to watch without a limit.
        pending_seconds: Timeout for processes to start.
        tracker: Restart history of the jobs that this one replaces.
        observer: Called after each observation.
    """

    def __init__(
        self,
        api: NamespaceClient,
        kind: JobKind,
        job: dict[str, Any],
        processes: Sequence[tuple[str, int]],
        restarts: int | None,
        pending_seconds: float,
        tracker: RestartTracker | None = None,
        observer: Observer = ignore,
    ) -> None:
        self._api = api
        self._kind = kind
        self._job = job
        self._name, self._uid = job["metadata"]["name"], job["metadata"]["uid"]
        self._selector = f"{kind.pod_label}={self._name}"
        self._count = len(processes)
        names = [f"{role} {index}" for role, index in processes]
        leader = "chief 0" if "chief 0" in names else names[0]
        self._observation = Observation(
            leader, restarts, tracker.for_job(self._uid) if tracker else RestartTracker(self._uid)
        )
        self._startup = StartupMonitor(api, kind, job, names, pending_seconds)
        self._observer = observer
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._logs: dict[str, PodLog] = {}
        self._failed_at = math.inf
        self._was_suspended = False
        self._restarted: list[str] = []
        self._reported_out_of_memory: set[str] = set()
        self._ended = threading.Event()

    def fail(self, error: Exception) -> None:
        """Raise an error of another thread in `run`."""

        def raise_error() -> NoReturn:
            raise error

        self._events.put(raise_error)

    def run(self) -> None:
        """Wait until the job has succeeded.

        Raises:
            ConfigError: If processes do not start, or the API server rejects a request.
            TrainingError: If a process fails with a permanent error.
            JobAbandonedError: If the operator has failed the job, but the job can be replaced.
            RetryableError: If restarts exceed the limit, the job is deleted, or the API server is unavailable.
        """
        try:
            self._run()
        finally:
            self._ended.set()
            for log in self._logs.values():
                log.ended()

    @property
    def exit_code(self) -> int | None:
        """Exit code of the root cause process, or None if no process has failed."""
        process = pods.root_cause_process(self._observation.processes or ())
        return process.exit_code if process else None

    def _run(self) -> None:
        by_name = f"metadata.name={self._name}"
        self._watch(self._api.watch(self._kind.resource, fieldSelector=by_name), self._observe_job)
        self._watch(self._api.watch(PODS, labelSelector=self._selector), self._observe_pods)
        while (decision := decide(self._observation)).action is Action.CONTINUE:
            self._log_changes()
            if self._observation.failure:
                self._handle_event(POD_SECONDS)
                failed_for = time.monotonic() - self._failed_at
                self._observation = dataclasses.replace(self._observation, failed_for=failed_for)
            else:
                self._startup.check()
                self._handle_event(_CHECK_SECONDS if self._startup.is_pending else None)
        if decision.action is Action.CANCEL:
            cancel_unwatched(self._api, self._kind, self._job)
        if decision.action is not Action.DELETED:
            self._find_unobserved_pods()
            self._end_logs()
        if decision.action is not Action.SUCCEEDED:
            raise self._error(decision)
        logger.info("%s %s has succeeded", self._kind.name, self._name)

    def _watch(self, changes: Iterator[Objects], handler: Callable[[Objects], None]) -> None:
        """Read a watch in a thread, and call the handler in the thread of `run`."""

        def read() -> None:
            try:
                for objects in changes:
                    if self._ended.is_set():
                        return
                    self._events.put(functools.partial(handler, objects))
            except Exception as error:  # Without this thread, `run` would wait forever.
                self.fail(error)

        threading.Thread(target=read, name=f"watch of {self._name}", daemon=True).start()

    def _handle_event(self, seconds: float | None) -> None:
        with contextlib.suppress(queue.Empty):
            self._events.get(timeout=seconds)()

    def _observe_job(self, jobs: Objects) -> None:
        job = jobs.get(self._name)
        if job is None or job["metadata"]["uid"] != self._uid or "deletionTimestamp" in job["metadata"]:
            self._observation = dataclasses.replace(self._observation, deleted=True)
            if job is not None and job["metadata"]["uid"] == self._uid:
                self._observer(job, self._observation.tracker.restarts)
            return
        self._job = job
        failure = condition(job, "Failed")
        if failure and not self._observation.failure:
            self._failed_at = time.monotonic()
        succeeded = condition(job, self._kind.succeeded) is not None
        pods_failed = bool(failure and self._kind.pods_failed and self._kind.pods_failed in failure)
        self._observation = dataclasses.replace(
            self._observation, failure=failure, succeeded=succeeded, pods_failed=pods_failed
        )
        suspended = is_suspended(job)
        if suspended != self._was_suspended:
            what = "is suspended, for example by a queue; waiting" if suspended else "is no longer suspended"
            logger.info("%s %s %s", self._kind.name, self._name, what)
            self._was_suspended = suspended
            if self._observation.processes is not None:
                self._observe_processes(self._observation.processes)
        self._observer(job, self._observation.tracker.restarts)

    def _observe_pods(self, found: Objects) -> None:
        processes = pods.processes_of_job(found.values(), self._job, self._kind)
        for process in processes:
            if process.started and process.uid not in self._logs:
                name = process.name if self._kind.many else ""
                self._logs[process.uid] = PodLog(self._api, process, name)
        running = {process.uid for process in processes if process.exit_code is None}
        for uid in self._logs.keys() - running:
            self._logs[uid].ended()
        self._observe_processes(processes)

    def _observe_processes(self, processes: Sequence[PodProcess]) -> None:
        suspended = is_suspended(self._job)
        self._startup.observe(processes, suspended=suspended)
        tracker = self._observation.tracker
        self._restarted += [process.name for process in processes if tracker.is_replacement(process)]
        self._observation = self._observation.observe(processes, suspended=suspended)
        self._observer(self._job, self._observation.tracker.restarts)

    def _log_changes(self) -> None:
        """Log restarts and, without a restart limit, processes that exceeded their memory limit."""
        restarts, count = self._observation.restarts, self._observation.tracker.restarts
        for name in self._restarted:
            of_all = count if restarts is None else f"{count} of {restarts}"
            logger.warning("%s was lost and is restarted (%s)", name, of_all)
        self._restarted.clear()
        for process in self._observation.processes or ():
            if restarts is None and process.out_of_memory and process.uid not in self._reported_out_of_memory:
                self._reported_out_of_memory.add(process.uid)
                logger.warning("%s %s", process.name, pods.OUT_OF_MEMORY)

    def _find_unobserved_pods(self) -> None:
        """Start the logs of processes that the watch of the pods has not returned before the job ended."""
        if len(self._logs) < self._count:
            # The job has ended, whether or not its logs can be read.
            with contextlib.suppress(QcnnError):
                found = self._api.find(PODS, labelSelector=self._selector)
                self._observe_pods({pod["metadata"]["name"]: pod for pod in found})

    def _end_logs(self) -> None:
        end = time.monotonic() + _LOG_SECONDS
        for log in self._logs.values():
            log.ended()
        for log in self._logs.values():
            log.wait(max(0.0, end - time.monotonic()))

    def _error(self, decision: Decision) -> Exception:
        """Log the last lines of the root cause process, and return the error of a decision."""
        process, reason = decision.process, f"{self._kind.name}: {decision.reason}"
        if process:
            lines = list(self._logs[process.uid].last_lines) if process.uid in self._logs else []
            if self._kind.many:
                logger.info("last lines of %s:", process.name)
                for line in logs.lines_to_text(lines):
                    logger.info("    %s", line)
            reason = f"{decision.reason}: {last_error_line(lines)}"
        reason = reason.removesuffix(".")
        if decision.action is Action.REPLACE and decision.tracker:
            return JobAbandonedError(reason, self._name, decision.tracker)
        if decision.is_final:
            return TrainingError(f"{reason}. Given: {self._name}")
        if decision.action is Action.DELETED:
            return RetryableError(f"{reason}. Given: {self._name}")
        return LostError(reason, self._name)
