"""Follows a job on a cluster to its end, and passes on what its processes print, each line once."""

import collections
import contextlib
import dataclasses
import functools
import logging
import math
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from qcnn.errors import QcnnError, RetryableError, TrainingError
from qcnn.jobs.job import last_error_line
from qcnn.jobs.kubernetes import pods
from qcnn.jobs.kubernetes.api import PODS, NamespaceClient
from qcnn.jobs.kubernetes.create_or_adopt import cancel_unwatched
from qcnn.jobs.kubernetes.manifest import CONTAINER, JobKind, condition, is_suspended
from qcnn.jobs.kubernetes.pods import PodProcess, StartupMonitor
from qcnn.jobs.kubernetes.restart_policy import POD_SECONDS, Action, Decision, Observation, RestartTracker, decide
from qcnn.monitoring import logs

# So many lines of a process are kept, to be shown again when it has failed.
LAST_LINES = 20
# A log that breaks off while its process runs is opened again after this, in seconds.
_PAUSE = 1.0
_SECOND_LENGTH = len("2026-01-31T12:00:00")
_printing = threading.Lock()


class LogCursor:
    """The lines of a container's log, each once, however often it is read."""

    def __init__(self, pod: str, container: str) -> None:
        self._pod, self._container = pod, container
        # The kubelet sends lines from a whole second on: those of the last second that it has already sent.
        self._since, self._sent = "", set[tuple[str, str]]()

    def new(self, api: NamespaceClient, *, follow: bool) -> Iterator[tuple[str, str]]:
        """Yield time and text of every line that was not yielded before."""
        for line in api.log(self._pod, self._container, self._since, follow=follow):
            if line[0][:_SECOND_LENGTH] > self._since[:_SECOND_LENGTH]:
                self._since, self._sent = line[0], set()
            if line not in self._sent:
                yield line
            self._sent.add(line)


class PodLog:
    """Passes on the output of one process as it comes, with a name before each line where it has one.

    Call `ended` when the process has ended.
    """

    def __init__(self, api: NamespaceClient, process: PodProcess, name: str) -> None:
        self.last_lines = collections.deque[str](maxlen=LAST_LINES)
        self._api = api
        self._process = process
        self._name = name
        self._ended = threading.Event()
        self._lines = LogCursor(process.pod, CONTAINER)
        self._thread = threading.Thread(target=self._follow, name=f"log of {process.pod}", daemon=True)
        self._thread.start()

    def ended(self) -> None:
        """Read only what is left."""
        self._ended.set()

    def wait(self, seconds: float) -> None:
        """Wait until all has been passed on."""
        self._thread.join(seconds)

    def _follow(self) -> None:
        while not self._ended.is_set():
            self._pass_on(follow=True)
            self._ended.wait(_PAUSE)
        # What was printed after the connection ended and before the process did.
        self._pass_on(follow=False)

    def _pass_on(self, *, follow: bool) -> None:
        try:
            for _, text in self._lines.new(self._api, follow=follow):
                self._print(text)
        except QcnnError:
            # The pod or its node is gone. The training's state is known from elsewhere, so this is no error.
            return

    def _print(self, text: str) -> None:
        self.last_lines.append(text)
        with _printing:
            for line in logs.reformat_line(text, self._name):
                sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


logger = logging.getLogger("qcnn")

Objects = dict[str, dict[str, Any]]

# While processes have not started, the time that they take is looked at this often.
_CHECK_SECONDS = 1.0
# The last lines of all processes are waited for this long, once the job has ended.
_LOG_SECONDS = 10.0


# Takes a job, as the API returned it, and how often its processes were started again.
Observer = Callable[[dict[str, Any], int], None]


def ignore(job: dict[str, Any], restarts: int) -> None:
    """Observe nothing."""


class LostError(RetryableError):
    """A job failed because processes were lost; a new one continues from the last checkpoint.

    Attributes:
        reason: What happened, without the job's name.
    """

    def __init__(self, reason: str, name: str) -> None:
        super().__init__(f"{reason}. Given: {name}")
        self.reason = reason


class JobAbandonedError(LostError):
    """A job was given up though its processes may be started again; it is to be replaced."""

    def __init__(self, reason: str, name: str, tracker: RestartTracker) -> None:
        super().__init__(reason, name)
        # All losses so far, this one included.
        self.tracker = tracker


class JobWatcher:
    """Follows one job, as the API returned it, to its end.

    `processes` are role and index of all that it is made of. Without `restarts` it only looks on, however often
    processes are lost. `tracker` is what was seen of the jobs that it replaces. `observer` is told at every look.
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
        names = [f"{role} {index}" for role, index in processes]
        leader = "chief 0" if "chief 0" in names else names[0]
        self._seen = Observation(leader, restarts, tracker.for_job(self._uid) if tracker else RestartTracker(self._uid))
        self._start = StartupMonitor(api, job, names, pending_seconds)
        self._observer = observer
        self._news: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._logs: dict[str, PodLog] = {}
        self._failed_at = math.inf
        self._was_suspended = False
        self._returned: list[str] = []
        self._greedy: set[str] = set()
        self._ended = threading.Event()

    def fail(self, error: Exception) -> None:
        """Let `run` raise an error of another thread."""

        def raise_it() -> NoReturn:
            raise error

        self._news.put(raise_it)

    def run(self) -> None:
        """Return when the job has succeeded.

        Raises:
            ConfigError: its processes cannot start, or the cluster refuses what following it needs.
            TrainingError: a process failed by its own fault.
            GivenUpError: the operator gave it up, but it can be replaced.
            RetryableError: processes were lost too often, the job was deleted, or the API server is gone.
        """
        try:
            self._run()
        finally:
            self._ended.set()
            for log in self._logs.values():
                log.ended()

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process to blame, None where none has failed."""
        process = pods.root_cause_process(self._seen.processes or ())
        return process.exit_code if process else None

    def _run(self) -> None:
        own = f"metadata.name={self._name}"
        self._watch(self._api.watch(self._kind.resource, fieldSelector=own), self._see_job)
        self._watch(self._api.watch(PODS, labelSelector=f"{self._kind.pod_label}={self._name}"), self._see_pods)
        while (verdict := decide(self._seen)).action is Action.CONTINUE:
            self._log_changes()
            if self._seen.failure:
                self._handle_news(POD_SECONDS)
                self._seen = dataclasses.replace(self._seen, failed_for=time.monotonic() - self._failed_at)
            else:
                self._start.check()
                self._handle_news(_CHECK_SECONDS if self._start.is_pending else None)
        if verdict.action is Action.CANCEL:
            cancel_unwatched(self._api, self._kind, self._job)
        if verdict.action is not Action.DELETED:
            self._end_logs()
        if verdict.action is not Action.SUCCEEDED:
            raise self._error(verdict)
        logger.info("%s %s has succeeded", self._kind.name, self._name)

    def _watch(self, changes: Iterator[Objects], handler: Callable[[Objects], None]) -> None:
        """Wait in a thread for what a watch yields, and have the thread of `run` handle it."""

        def pass_on() -> None:
            try:
                for objects in changes:
                    if self._ended.is_set():
                        return
                    self._news.put(functools.partial(handler, objects))
            except Exception as error:  # Any error: without this thread, `run` would wait for ever.
                self.fail(error)

        threading.Thread(target=pass_on, name=f"watch of {self._name}", daemon=True).start()

    def _handle_news(self, seconds: float | None) -> None:
        with contextlib.suppress(queue.Empty):
            self._news.get(timeout=seconds)()

    def _see_job(self, found: Objects) -> None:
        job = found.get(self._name)
        if job is None or job["metadata"]["uid"] != self._uid or "deletionTimestamp" in job["metadata"]:
            self._seen = dataclasses.replace(self._seen, deleted=True)
            if job is not None and job["metadata"]["uid"] == self._uid:
                self._observer(job, self._seen.tracker.restarts)
            return
        self._job = job
        failure = condition(job, "Failed")
        if failure and not self._seen.failure:
            self._failed_at = time.monotonic()
        succeeded = condition(job, self._kind.succeeded) is not None
        self._seen = dataclasses.replace(self._seen, failure=failure, succeeded=succeeded)
        suspended = is_suspended(job)
        if suspended != self._was_suspended:
            what = "is suspended, as by a queue; it is waited for" if suspended else "is no longer suspended"
            logger.info("%s %s %s", self._kind.name, self._name, what)
            self._was_suspended = suspended
            if self._seen.processes is not None:
                self._see_processes(self._seen.processes)
        self._observer(job, self._seen.tracker.restarts)

    def _see_pods(self, found: Objects) -> None:
        processes = pods.of_job(found.values(), self._job, self._kind)
        for process in processes:
            if process.started and process.uid not in self._logs:
                name = process.name if self._kind.many else ""
                self._logs[process.uid] = PodLog(self._api, process, name)
        running = {process.uid for process in processes if process.exit_code is None}
        for uid in self._logs.keys() - running:
            self._logs[uid].ended()
        self._see_processes(processes)

    def _see_processes(self, processes: Sequence[PodProcess]) -> None:
        suspended = is_suspended(self._job)
        self._start.observe(processes, suspended=suspended)
        self._returned += [process.name for process in processes if self._seen.tracker.is_replacement(process)]
        self._seen = self._seen.observe(processes, suspended=suspended)
        self._observer(self._job, self._seen.tracker.restarts)

    def _log_changes(self) -> None:
        """Log which processes were started again and, where nothing is done about it, which used too much memory."""
        restarts, count = self._seen.restarts, self._seen.tracker.restarts
        for name in self._returned:
            of_all = count if restarts is None else f"{count} of {restarts}"
            logger.warning("%s was lost and is started again (%s)", name, of_all)
        self._returned.clear()
        for process in self._seen.processes or ():
            if restarts is None and process.out_of_memory and process.uid not in self._greedy:
                self._greedy.add(process.uid)
                logger.warning("%s used more memory than its limit", process.name)

    def _end_logs(self) -> None:
        end = time.monotonic() + _LOG_SECONDS
        for log in self._logs.values():
            log.ended()
        for log in self._logs.values():
            log.wait(max(0.0, end - time.monotonic()))

    def _error(self, verdict: Decision) -> Exception:
        """Log the last lines of the process to blame, and return the error that a verdict comes to."""
        process, reason = verdict.process, f"{self._kind.name}: {verdict.reason}"
        if process:
            lines = list(self._logs[process.uid].last_lines) if process.uid in self._logs else []
            if self._kind.many:
                logger.info("last lines of %s:", process.name)
                for line in logs.lines_to_text(lines):
                    logger.info("    %s", line)
            reason = f"{verdict.reason}: {last_error_line(lines)}"
        reason = reason.removesuffix(".")
        if verdict.action is Action.REPLACE and verdict.tracker:
            return JobAbandonedError(reason, self._name, verdict.tracker)
        if verdict.is_final:
            return TrainingError(f"{reason}. Given: {self._name}")
        if verdict.action is Action.DELETED:
            return RetryableError(f"{reason}. Given: {self._name}")
        return LostError(reason, self._name)
