"""A TFJob from its creation to its end: its processes' output, how often they were lost, how they ended."""

import collections
import contextlib
import functools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from components.train.job import Job
from components.train.tfjobs import pods
from components.train.tfjobs.api import PODS, TFJOBS, Api
from components.train.tfjobs.manifest import JOB_NAME_LABEL, condition
from components.train.tfjobs.pod_logs import PodLog
from components.train.tfjobs.pods import Process
from components.train.tfjobs.starting import Start
from trainer.errors import RetryableError, TrainingError

logger = logging.getLogger("trainer")

Objects = dict[str, dict[str, Any]]

# While processes have not started, that is looked at this often.
_LOOK_SECONDS = 1.0
# The news that a job has failed may come before that of its pod.
_POD_SECONDS = 3.0
# What processes printed before their end is waited for this long, all together.
_LOG_SECONDS = 10.0


class Following:
    """Follows one TFJob, as the API returned it, to its end."""

    def __init__(self, api: Api, job: dict[str, Any], description: Job, pending_seconds: float) -> None:
        self._api = api
        self._job = job
        self._name, self._uid = job["metadata"]["name"], job["metadata"]["uid"]
        self._restarts = description.restarts
        self._start = Start(api, job, description.processes(), pending_seconds)
        self._news: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._processes: list[Process] = []
        self._logs: dict[str, PodLog] = {}
        self._lives: collections.defaultdict[str, list[str]] = collections.defaultdict(list)

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
            RetryableError: processes were lost too often, the job was deleted, or the API server is gone.
        """
        own = f"metadata.name={self._name}"
        self._watch(self._api.watch(TFJOBS, fieldSelector=own), self._see_job)
        self._watch(self._api.watch(PODS, labelSelector=f"{JOB_NAME_LABEL}={self._name}"), self._see_pods)
        while not (condition(self._job, "Succeeded") or condition(self._job, "Failed")):
            self._hear(_LOOK_SECONDS if self._start.is_pending else None)
            self._start.check()
        failure = condition(self._job, "Failed")
        end = time.monotonic() + _POD_SECONDS
        while failure and not pods.most_to_blame(self._processes) and time.monotonic() < end:
            self._hear(end - time.monotonic())
        self._end_logs()
        if failure:
            self._raise(pods.most_to_blame(self._processes), failure)
        logger.info("TFJob %s has succeeded", self._name)

    def _watch(self, changes: Iterator[Objects], handler: Callable[[Objects], None]) -> None:
        """Let a thread of its own wait for what a watch yields; it is handled where `run` is."""

        def pass_on() -> None:
            try:
                for objects in changes:
                    self._news.put(functools.partial(handler, objects))
            except Exception as error:  # Whatever it is: without this thread, `run` would wait for ever.
                self.fail(error)

        threading.Thread(target=pass_on, name=f"watch of {self._name}", daemon=True).start()

    def _hear(self, seconds: float | None) -> None:
        with contextlib.suppress(queue.Empty):
            self._news.get(timeout=seconds)()

    def _see_job(self, jobs: Objects) -> None:
        job = jobs.get(self._name)
        if job is None or job["metadata"]["uid"] != self._uid or "deletionTimestamp" in job["metadata"]:
            raise RetryableError(f"TFJob: it was deleted while its launcher followed it. Given: {self._name}")
        self._job = job

    def _see_pods(self, found: Objects) -> None:
        self._processes = [pods.read(pod) for pod in found.values()]
        for process in self._processes:
            if process.started and process.uid not in self._logs:
                self._logs[process.uid] = PodLog(self._api, process)
        running = {process.uid for process in self._processes if process.exit_code is None}
        for uid in self._logs.keys() - running:
            self._logs[uid].ended()
        self._start.see(self._processes)
        for process in self._processes:
            self._check(process)

    def _check(self, process: Process) -> None:
        """Give the job up where the operator would start a process again that must not be."""
        lives = self._lives[process.name]
        if process.uid not in lives:
            lives.append(process.uid)
            if len(lives) > 1:
                count = f"{len(lives) - 1} of {self._restarts}"
                logger.warning("%s was lost and is started again (%s)", process.name, count)
        if process.out_of_memory or len(lives) - 1 + process.lost > self._restarts:
            self._api.delete(TFJOBS, self._name, uid=self._uid)
            self._end_logs()
            self._raise(process, "")

    def _end_logs(self) -> None:
        end = time.monotonic() + _LOG_SECONDS
        for log in self._logs.values():
            log.ended()
        for log in self._logs.values():
            log.wait(max(0.0, end - time.monotonic()))

    def _raise(self, process: Process | None, failure: str) -> NoReturn:
        """Show the last lines of a process and say how it ended; without one, the operator's words count."""
        if process is None:
            raise TrainingError(f"TFJob: {failure} Given: {self._name}")
        lines = self._logs[process.uid].last_lines if process.uid in self._logs else ()
        logger.info("last lines of %s:", process.name)
        for line in lines:
            logger.info("    %s", line)
        how = "was lost" if process.exit_code is None else f"ended with exit code {process.exit_code}"
        if process.out_of_memory:
            how = "used more memory than its limit"
        elif not process.own_fault:
            how += f", after {self._restarts} restarts"
        kind = TrainingError if process.out_of_memory or process.own_fault else RetryableError
        raise kind(f"{process.name} {how}: {lines[-1] if lines else 'it printed nothing'}. Given: {self._name}")
