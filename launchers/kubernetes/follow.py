"""A job from its creation to its end: its processes' output, how often they were lost, how they ended."""

import contextlib
import functools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from launchers.kubernetes import pods
from launchers.kubernetes.api import PODS, Api
from launchers.kubernetes.create_or_adopt import abandon
from launchers.kubernetes.kinds import Kind
from launchers.kubernetes.lives import Lives
from launchers.kubernetes.pod_logs import PodLog
from launchers.kubernetes.pods import Process
from launchers.kubernetes.start import Start
from launchers.tfjob import read
from launchers.tfjob.manifest import condition
from trainer.errors import RetryableError, TrainingError

logger = logging.getLogger("qcnn")

Objects = dict[str, dict[str, Any]]

# While processes have not started, that is looked at this often.
_LOOK_SECONDS = 1.0
# The news that a job has failed may come before that of its pod.
_POD_SECONDS = 3.0
# What processes printed before their end is waited for this long, all together.
_LOG_SECONDS = 10.0


# What the operator says of a job that it gave up for its pods, and not for its time.
_PODS_FAILED = "replica(s) failed"


class GivenUpError(RetryableError):
    """A job has failed though no process did by its own fault, and processes were not lost too often.

    The operator (1.9) takes a pod that is being deleted, as nodes that are drained or taken back do with all of theirs,
    for one that has failed (updateJobReplicaStatuses), whatever its exit code will be.
    """

    def __init__(self, message: str, lives: Lives) -> None:
        super().__init__(message)
        # What was lost, this time included.
        self.lives = lives


class Following:
    """Follows one job, as the API returned it, to its end.

    `processes` are role and index of all that it is made of. Without `restarts` it only looks on, however often
    processes are lost. `lives` is what was seen of the jobs that it replaces.
    """

    def __init__(
        self,
        api: Api,
        kind: Kind,
        job: dict[str, Any],
        processes: Sequence[tuple[str, int]],
        restarts: int | None,
        pending_seconds: float,
        lives: Lives | None = None,
    ) -> None:
        self._api = api
        self._kind = kind
        self._job = job
        self._name, self._uid = job["metadata"]["name"], job["metadata"]["uid"]
        self._restarts = restarts
        names = [f"{role} {index}" for role, index in processes]
        self._leader = "chief 0" if "chief 0" in names else names[0]
        self._start = Start(api, job, names, pending_seconds)
        self._news: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._processes: list[Process] = []
        self._pods_are_known = False
        self._logs: dict[str, PodLog] = {}
        self._seen: dict[str, Process] = {}
        self._greedy: set[str] = set()
        self._lives = lives.moved_to(self._uid) if lives else Lives(self._uid)
        self._was_suspended = False
        self._ended = threading.Event()

    def fail(self, error: Exception) -> None:
        """Have `run` raise an error of another thread."""

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
        """That of the process to blame, None where none has failed."""
        process = pods.most_to_blame(self._processes)
        return process.exit_code if process else None

    @property
    def _has_ended(self) -> bool:
        return bool(condition(self._job, self._kind.succeeded) or condition(self._job, "Failed"))

    def _run(self) -> None:
        own = f"metadata.name={self._name}"
        self._watch(self._api.watch(self._kind.resource, fieldSelector=own), self._see_job)
        self._watch(self._api.watch(PODS, labelSelector=f"{self._kind.pod_label}={self._name}"), self._see_pods)
        while not self._pods_are_known or not self._has_ended:
            self._hear(_LOOK_SECONDS if self._start.is_pending else None)
            self._start.check()
        failure = condition(self._job, "Failed")
        end = time.monotonic() + _POD_SECONDS
        while failure and not pods.most_to_blame(self._processes) and time.monotonic() < end:
            self._hear(end - time.monotonic())
        self._end_logs()
        if failure:
            self._check_given_up(failure)
            self._raise(pods.most_to_blame(self._processes), failure)
        logger.info("%s %s has succeeded", self._kind.name, self._name)

    def _watch(self, changes: Iterator[Objects], handler: Callable[[Objects], None]) -> None:
        """Let a thread of its own wait for what a watch yields; it is handled where `run` is."""

        def pass_on() -> None:
            try:
                for objects in changes:
                    if self._ended.is_set():
                        return
                    self._news.put(functools.partial(handler, objects))
            except Exception as error:  # Whatever it is: without this thread, `run` would wait for ever.
                self.fail(error)

        threading.Thread(target=pass_on, name=f"watch of {self._name}", daemon=True).start()

    def _hear(self, seconds: float | None) -> None:
        with contextlib.suppress(queue.Empty):
            self._news.get(timeout=seconds)()

    def _see_job(self, found: Objects) -> None:
        job = found.get(self._name)
        if job is None or job["metadata"]["uid"] != self._uid or "deletionTimestamp" in job["metadata"]:
            raise RetryableError(
                f"{self._kind.name}: it, or its namespace, was deleted while it was followed. Given: {self._name}"
            )
        self._job = job
        suspended = read.is_suspended(job)
        if suspended != self._was_suspended:
            what = "is suspended, as by a queue; it is waited for" if suspended else "is no longer suspended"
            logger.info("%s %s %s", self._kind.name, self._name, what)
            self._was_suspended = suspended
            self._judge()

    def _see_pods(self, found: Objects) -> None:
        self._pods_are_known = True
        self._processes = [pods.read(pod) for pod in found.values()]
        for process in self._processes:
            if process.started and process.uid not in self._logs:
                prefix = f"[{process.name}] " if self._kind.many else ""
                self._logs[process.uid] = PodLog(self._api, process, prefix)
        running = {process.uid for process in self._processes if process.exit_code is None}
        for uid in self._logs.keys() - running:
            self._logs[uid].ended()
        self._judge()

    def _judge(self) -> None:
        """Say what has changed; give the job up where the operator would start it again, and must not."""
        suspended = read.is_suspended(self._job)
        self._start.see(self._processes, suspended=suspended)
        returned = [process.name for process in self._processes if self._lives.returned(process)]
        self._lives = self._lives.see(self._processes, suspended=suspended)
        self._seen |= {process.uid: process for process in self._processes}
        greedy = [process for process in self._processes if process.out_of_memory and process.uid not in self._greedy]
        self._greedy |= {process.uid for process in greedy}
        if self._restarts is None:
            for process in greedy:
                logger.warning("%s used more memory than its limit", process.name)
        elif not self._has_ended and not self._is_done:
            if greedy:
                self._give_up(greedy[0])
            if loss := self._lives.one_too_many(self._restarts):
                self._give_up(self._seen[loss.pod])
        for name in returned:
            count = self._lives.restarts if self._restarts is None else f"{self._lives.restarts} of {self._restarts}"
            logger.warning("%s was lost and is started again (%s)", name, count)

    @property
    def _is_done(self) -> bool:
        """Whether the leading process has ended well, which ends the job."""
        return any(process.name == self._leader and process.exit_code == 0 for process in self._processes)

    def _give_up(self, process: Process) -> NoReturn:
        abandon(self._api, self._kind, self._job)
        self._end_logs()
        self._raise(process, "")

    def _check_given_up(self, failure: str) -> None:
        """Tell a job that the operator gave up for a pod that was deleted from one that failed."""
        process = pods.most_to_blame(self._processes)
        if self._restarts is None or _PODS_FAILED not in failure:
            return
        if process and (process.own_fault or process.out_of_memory):
            return
        self._lives = self._lives.given_up()
        if self._lives.restarts <= self._restarts:
            raise GivenUpError(
                f"{self._kind.name}: was given up for a process that was lost. Given: {self._name}", self._lives
            )
        raise RetryableError(
            f"{self._kind.name}: processes were lost, after {self._restarts} restarts: {failure} Given: {self._name}"
        )

    def _end_logs(self) -> None:
        end = time.monotonic() + _LOG_SECONDS
        for log in self._logs.values():
            log.ended()
        for log in self._logs.values():
            log.wait(max(0.0, end - time.monotonic()))

    def _raise(self, process: Process | None, failure: str) -> NoReturn:
        """Show the last lines of a process and say how it ended; without one, the operator's words count."""
        if process is None:
            raise TrainingError(f"{self._kind.name}: {failure} Given: {self._name}")
        lines = self._logs[process.uid].last_lines if process.uid in self._logs else ()
        if self._kind.many:
            logger.info("last lines of %s:", process.name)
            for line in lines:
                logger.info("    %s", line)
        how = "was lost" if process.exit_code is None else f"ended with exit code {process.exit_code}"
        if process.out_of_memory:
            how = "used more memory than its limit"
        elif not process.own_fault:
            how += f", after {max(0, self._lives.restarts - 1)} restarts"
        kind = TrainingError if process.out_of_memory or process.own_fault else RetryableError
        raise kind(f"{process.name} {how}: {lines[-1] if lines else 'it printed nothing'}. Given: {self._name}")
