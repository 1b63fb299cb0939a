"""One custom job from its creation to its end: its replicas are started, followed, restarted and ended."""

import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from google.cloud import aiplatform_v1 as v1

from tests.vertex.server.logs import Logs
from tests.vertex.server.state import State
from tests.vertex.server.training.cluster import environment, free_addresses, replicas
from tests.vertex.server.training.replica import Replica, end, process_environment
from tests.vertex.server.training.verdict import Action, Ended, judge, no_machines

# The library's types take its states for bare integers.
QUEUED, PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLING, CANCELLED = (
    v1.JobState(getattr(v1.JobState, f"JOB_STATE_{name}"))
    for name in ("QUEUED", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED")
)
ENDED = (SUCCEEDED, FAILED, CANCELLED)
# Between SIGTERM and SIGKILL, in seconds.
_GRACE = 10.0
# google.rpc.Code
_CANCELLED, _DEADLINE_EXCEEDED = 1, 4


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """What runs share: the state, the logs, what every process is told, and whether there is room for a job.

    A job that has room may still find no machines; `has_machines` is asked once by each.
    """

    state: State
    logs: Logs
    environment: Mapping[str, str]
    has_room: Callable[[], bool]
    has_machines: Callable[[], bool]


class JobRun:
    """A job that is being run; `job` is changed as it goes."""

    def __init__(
        self, job: v1.CustomJob, around: Surroundings, trial: str, *, needs_room: bool, added: Mapping[str, str] | None
    ) -> None:
        self._needs_room, self._added = needs_room, added or {}
        self._job, self._around, self._trial = job, around, trial
        self._id = job.name.rpartition("/")[2]
        self._events: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._addresses = free_addresses(replicas(job.job_spec))
        self._replicas: dict[str, Replica] = {}
        self._restarts = 0
        self._is_cancelled = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Ask for the job's end."""
        state = self._around.state
        with state.changed:
            if self._job.state not in ENDED:
                self._is_cancelled = True
                self._around.state.move(self._job, CANCELLING)
        self._events.put(("cancelled", None))

    def preempt(self, replica: str) -> None:
        """Take the machine of a replica (workerpool1-0) away."""
        found = self._replicas[replica]
        found.preempted = True
        found.kill()

    def signal_all(self) -> None:
        """End all processes at once, as where the test is over."""
        self._is_cancelled = True
        self._events.put(("cancelled", None))
        for replica in list(self._replicas.values()):
            replica.kill()

    def wait(self) -> None:
        """Wait until nothing of the job runs any more."""
        self._thread.join()

    def _run(self) -> None:
        around = self._around
        self._say("Vertex AI is provisioning job running framework.")
        around.state.until(lambda: self._is_cancelled or not self._needs_room or around.has_room())
        if not self._is_cancelled:
            self._around.state.move(self._job, PENDING)
            self._say("Job is preparing.")
            if self._needs_room and not around.has_machines():
                verdict = no_machines(around.state.location)
                self._end(FAILED, verdict.code, verdict.message)
                return
            self._start_all()
            self._around.state.move(self._job, RUNNING)
            self._say("Job is running.")
        self._follow()

    def _follow(self) -> None:
        timeout = self._job.job_spec.scheduling.timeout.total_seconds()
        ends_at = time.monotonic() + timeout if timeout else None
        while True:
            if self._is_cancelled:
                self._end(CANCELLED, _CANCELLED, "CANCELED")
                return
            try:
                _, ended = self._events.get(timeout=None if ends_at is None else max(0.0, ends_at - time.monotonic()))
            except queue.Empty:
                self._end(FAILED, _DEADLINE_EXCEEDED, "The job has exceeded its maximum running time.")
                return
            if ended and self._replicas.get(ended[0].name) is ended[0] and self._take(*ended):
                return

    def _take(self, replica: Replica, code: int) -> bool:
        """Do what follows from a replica's end; return whether the job has ended."""
        scheduling = self._job.job_spec.scheduling
        state = self._around.state
        verdict = judge(
            Ended(
                replica=replica.name,
                code=code,
                preempted=replica.preempted,
                spot=scheduling.strategy == v1.Scheduling.Strategy.SPOT,
                restarts_job=scheduling.restart_job_on_worker_restart and not scheduling.disable_retries,
                may_retry=not scheduling.disable_retries,
                restarts=self._restarts,
            ),
            job_id=self._id,
            project=state.project,
            location=state.location,
        )
        if verdict.action is Action.SUCCEEDED:
            self._end(SUCCEEDED)
        elif verdict.action is Action.FAILED:
            self._end(FAILED, verdict.code, verdict.message)
        elif verdict.action is Action.RESTART_REPLICA:
            self._say(f"The replica {replica.name} is restarted.", "WARNING")
            pool, index = (int(part) for part in replica.name.removeprefix("workerpool").split("-"))
            self._start(pool, index)
        elif verdict.action is Action.RESTART_JOB:
            self._restarts += 1
            self._say(f"The job is restarted (attempt {self._restarts + 1}).", "WARNING")
            self._stop()
            self._start_all()
        return verdict.action in (Action.SUCCEEDED, Action.FAILED)

    def _start_all(self) -> None:
        for pool, index in replicas(self._job.job_spec):
            self._start(pool, index)

    def _start(self, pool: int, index: int) -> None:
        spec = self._job.job_spec.worker_pool_specs[pool].container_spec
        name = f"workerpool{pool}-{index}"
        added = environment(self._job, self._addresses, pool, index, self._trial)
        self._replicas[name] = Replica(
            name,
            [*spec.command, *spec.args],
            process_environment({**self._around.environment, **self._added, **added}),
            lambda replica, line: self._around.logs.write(self._id, replica, line),
            lambda replica, code: self._events.put(("exit", (replica, code))),
        )

    def _stop(self) -> None:
        stopped, self._replicas = list(self._replicas.values()), {}
        end(stopped, _GRACE)

    def _end(self, state: v1.JobState, code: int = 0, message: str = "") -> None:
        self._stop()
        words = {SUCCEEDED: "Job completed successfully.", FAILED: "Job failed.", CANCELLED: "Job cancelled."}
        self._say(words[state], "INFO" if state == SUCCEEDED else "ERROR")
        self._around.state.move(self._job, state, code, message)

    def _say(self, text: str, severity: str = "INFO") -> None:
        self._around.logs.write(self._id, "service", text, severity)
