"""Execution of a custom job: start, monitoring, restarts and termination of its replicas."""

import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from google.cloud import aiplatform_v1 as v1

from qcnn.process.local_ports import LOOPBACK, reserved_ports
from tests.vertex.fake_service.logs import Logs
from tests.vertex.fake_service.state import State
from tests.vertex.fake_service.training.cluster import environment, replicas
from tests.vertex.fake_service.training.decision import Action, ReplicaExit, decide, no_machines
from tests.vertex.fake_service.training.replica import Replica, process_environment, terminate_all

# The stubs of the library type its states as integers.
QUEUED, PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLING, CANCELLED = (
    v1.JobState(getattr(v1.JobState, f"JOB_STATE_{name}"))
    for name in ("QUEUED", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED")
)
ENDED = (SUCCEEDED, FAILED, CANCELLED)
# Seconds between SIGTERM and SIGKILL.
_GRACE = 10.0
# google.rpc.Code
_CANCELLED, _DEADLINE_EXCEEDED = 1, 4


@dataclasses.dataclass(frozen=True)
class JobContext:
    """Services shared by all jobs: state, logs, environment of every process, and capacity.

    A job waits for `has_capacity`. After that, it fails if `has_machines`, which it calls once, is false.
    """

    state: State
    logs: Logs
    environment: Mapping[str, str]
    has_capacity: Callable[[], bool]
    has_machines: Callable[[], bool]


class JobRun:
    """Running job. Updates the state of `job`."""

    def __init__(
        self,
        job: v1.CustomJob,
        context: JobContext,
        trial: str,
        *,
        needs_capacity: bool,
        added: Mapping[str, str] | None,
    ) -> None:
        self._needs_capacity, self._added = needs_capacity, added or {}
        self._job, self._context, self._trial = job, context, trial
        self._id = job.name.rpartition("/")[2]
        self._events: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._addresses: dict[tuple[int, int], str] = {}
        self._replicas: dict[str, Replica] = {}
        # The first line of a replica may be read before it is in `_replicas`.
        self._starting = threading.Lock()
        self._restarts = 0
        self._is_cancelled = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Cancel the job unless it has ended."""
        state = self._context.state
        with state.changed:
            if self._job.state not in ENDED:
                self._is_cancelled = True
                self._context.state.move(self._job, CANCELLING)
        self._events.put(("cancelled", None))

    def preempt(self, replica: str) -> None:
        """Preempt the VM of a replica such as workerpool1-0."""
        with self._starting:
            found = self._replicas[replica]
        found.preempted = True
        found.kill()

    def signal_all(self) -> None:
        """Kill all processes immediately, at the end of a test."""
        self._is_cancelled = True
        self._events.put(("cancelled", None))
        for replica in list(self._replicas.values()):
            replica.kill()

    def wait(self) -> None:
        """Wait until all processes of the job have ended."""
        self._thread.join()

    def _run(self) -> None:
        names = replicas(self._job.job_spec)
        with reserved_ports(len(names)) as ports:
            self._addresses = {name: f"{LOOPBACK}:{port}" for name, port in zip(names, ports, strict=True)}
            self._execute()

    def _execute(self) -> None:
        context = self._context
        self._log("Vertex AI is provisioning job running framework.")
        context.state.until(lambda: self._is_cancelled or not self._needs_capacity or context.has_capacity())
        if not self._is_cancelled:
            self._context.state.move(self._job, PENDING)
            self._log("Job is preparing.")
            if self._needs_capacity and not context.has_machines():
                decision = no_machines(context.state.location)
                self._end(FAILED, decision.code, decision.message)
                return
            self._start_all()
            self._context.state.move(self._job, RUNNING)
            self._log("Job is running.")
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
        """Handle the exit of a replica, and return whether the job has ended."""
        scheduling = self._job.job_spec.scheduling
        state = self._context.state
        decision = decide(
            ReplicaExit(
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
        if decision.action is Action.SUCCEEDED:
            self._end(SUCCEEDED)
        elif decision.action is Action.FAILED:
            self._end(FAILED, decision.code, decision.message)
        elif decision.action is Action.RESTART_REPLICA:
            self._log(f"The replica {replica.name} is restarted.", "WARNING")
            pool, index = (int(part) for part in replica.name.removeprefix("workerpool").split("-"))
            self._start(pool, index)
        elif decision.action is Action.RESTART_JOB:
            self._restarts += 1
            self._log(f"The job is restarted (attempt {self._restarts + 1}).", "WARNING")
            self._stop()
            self._start_all()
        return decision.action in (Action.SUCCEEDED, Action.FAILED)

    def _start_all(self) -> None:
        for pool, index in replicas(self._job.job_spec):
            self._start(pool, index)

    def _start(self, pool: int, index: int) -> None:
        spec = self._job.job_spec.worker_pool_specs[pool].container_spec
        name = f"workerpool{pool}-{index}"
        added = environment(self._job, self._addresses, pool, index, self._trial)
        with self._starting:
            self._replicas[name] = Replica(
                name,
                [*spec.command, *spec.args],
                process_environment({**self._context.environment, **self._added, **added}),
                lambda replica, line: self._context.logs.write(self._id, replica, line),
                lambda replica, code: self._events.put(("exit", (replica, code))),
            )

    def _stop(self) -> None:
        stopped, self._replicas = list(self._replicas.values()), {}
        terminate_all(stopped, _GRACE)

    def _end(self, state: v1.JobState, code: int = 0, message: str = "") -> None:
        self._stop()
        messages = {SUCCEEDED: "Job completed successfully.", FAILED: "Job failed.", CANCELLED: "Job cancelled."}
        self._log(messages[state], "INFO" if state == SUCCEEDED else "ERROR")
        self._context.state.move(self._job, state, code, message)

    def _log(self, text: str, severity: str = "INFO") -> None:
        self._context.logs.write(self._id, "service", text, severity)
