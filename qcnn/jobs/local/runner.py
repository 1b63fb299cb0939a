"""Runs the processes of a job on this machine, and starts them again when one is lost."""

import contextlib
import dataclasses
import enum
import logging
import os
import select
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence

from qcnn.errors import RetryableError, TrainingError
from qcnn.jobs.job import Job, tf_config
from qcnn.jobs.local.processes import EventHandler, LocalProcess, stop
from qcnn.startup import ERROR, FAULTS, is_permanent_error, terminated_as_interrupt


class Action(enum.Enum):
    """What is done about the processes of a job."""

    GO_ON = "let them run"
    SUCCEEDED = "return: all have ended well"
    FAILED = "fail: one ended by its own fault"
    LOST = "end all, and start them again: one was lost"
    ONE_LOST = "start again the one that was lost"


@dataclasses.dataclass(frozen=True)
class ProcessObservation:
    """Observed state of a process: its exit code, negative for a signal, or None while it runs.

    With `ignore_exit`, the job ends without waiting for the process. With `restart_individually`, the other processes
    continue after it has failed.
    """

    name: str
    exit_code: int | None
    seconds_since_heartbeat: float
    ignore_exit: bool = False
    restart_individually: bool = False


@dataclasses.dataclass(frozen=True)
class ProcessesDecision:
    """What is done, and which process is to blame for it."""

    action: Action
    process: ProcessObservation | None = None


def decide(processes: Sequence[ProcessObservation], heartbeat_timeout_seconds: float) -> ProcessesDecision:
    """Return what is done about processes; one without a heartbeat for `heartbeat_timeout_seconds` is lost."""
    if all(process.exit_code == 0 for process in processes if not process.ignore_exit):
        return ProcessesDecision(Action.SUCCEEDED)
    failed = [process for process in processes if process.exit_code]
    if failed:
        blamed = min(failed, key=_blame)
        return ProcessesDecision(Action.FAILED if is_permanent_error(blamed.exit_code or 0) else _lost(blamed), blamed)
    running = [process for process in processes if process.exit_code is None]
    hanging = [process for process in running if process.seconds_since_heartbeat > heartbeat_timeout_seconds]
    return ProcessesDecision(_lost(hanging[0]), hanging[0]) if hanging else ProcessesDecision(Action.GO_ON)


def explain(process: ProcessObservation, last_line: str, heartbeat_timeout_seconds: float) -> str:
    """Return how the process to blame ended, with the last line that it printed."""
    if process.exit_code is None:
        return f"{process.name} gave no sign of life for {heartbeat_timeout_seconds:g} s"
    if process.exit_code < 0:
        number = signal.Signals(-process.exit_code)
        # What is printed before any other signal has nothing to do with it.
        reason = f": {last_line}" if last_line and number in FAULTS else ""
        return f"{process.name} was killed by {number.name}{reason}"
    reason = last_line.removeprefix(ERROR) or "it printed nothing"
    return f"{process.name} ended with exit code {process.exit_code}: {reason}"


def _lost(process: ProcessObservation) -> Action:
    return Action.ONE_LOST if process.restart_individually else Action.LOST


def _blame(process: ProcessObservation) -> tuple[bool, bool, bool]:
    """Order the failed of one moment.

    Own faults come first, then those without whom the others cannot go on, of these the killed before those who only
    lost a peer.
    """
    code = process.exit_code or 0
    return not is_permanent_error(code), process.restart_individually, code > 0


logger = logging.getLogger("qcnn")

_LOOPBACK = "127.0.0.1"
# How often the processes are looked at, in seconds.
_INTERVAL = 0.1
# Seconds that those which end with others get for it once these have ended.
_LAST_SECONDS = 30.0
# How many of a job's words name its program: python -m MODULE.
_PROGRAM = 3


def run_processes(job: Job, on_event: EventHandler) -> None:
    """Run every process of a job to its end; start them again, `job.restarts` times at most, when one was lost.

    A process is lost that was ended by a signal, ended with an exit code above 127, or sent no heartbeat for
    `job.heartbeat_timeout_seconds`. All processes of an attempt have ended before the next attempt begins, except where
    the lost one is started alone.

    Raises:
        TrainingError: a process failed by its own fault; its last line says why.
        RetryableError: workers were lost more often than `job.restarts`.
    """
    with contextlib.closing(ProcessPool(lives_on=False)) as crew:
        crew.run(job, on_event)


class ProcessPool:
    """The processes of one job after the other: where they `live_on`, those of one job are those of the next.

    They are started anew for a job of another `kind` or number of processes, and after one that failed or has processes
    that end with others.
    """

    def __init__(self, *, lives_on: bool) -> None:
        self._lives_on = lives_on
        self._kind: object = None
        self._processes: list[LocalProcess] = []

    def run(self, job: Job, on_event: EventHandler) -> None:
        """Run a job as `run_processes` does."""
        restarts = _Restarts(job.restarts)
        with terminated_as_interrupt():
            while lost := self._attempt(job, on_event, restarts):
                restarts.count(lost, "all workers")

    def close(self) -> None:
        """End all processes."""
        stop(self._processes)
        self._processes = []

    def _attempt(self, job: Job, on_event: EventHandler, restarts: "_Restarts") -> str | None:
        """Run the processes once; return None when all ended well, else which one was lost and how."""
        with contextlib.ExitStack() as stack:
            selector = stack.enter_context(selectors.DefaultSelector())
            stack.callback(self.close)
            self._start(job, on_event)
            for process in self._processes:
                process.watch(selector)
            while (verdict := _follow(self._processes, job, selector)).process is not None:
                blamed = next(process for process in self._processes if process.name == verdict.process.name)
                if verdict.process.exit_code is not None:
                    blamed.drain()
                reason = explain(verdict.process, blamed.last_line, job.heartbeat_timeout_seconds)
                if verdict.action is Action.FAILED:
                    raise TrainingError(reason)
                if verdict.action is Action.LOST:
                    return reason
                restarts.count(reason, blamed.name)
                self._restart(blamed, selector)
            for process in self._processes:
                process.drain()
            if self._keeps(job):
                # Nothing to close yet but what this attempt looked at them with.
                stack.pop_all()
                selector.close()
            else:
                _let_end(self._processes, selector)
            return None

    def _keeps(self, job: Job) -> bool:
        """Whether the processes of a job live on: those that end with others would have none to end with."""
        return self._lives_on and not any(job.replicas.get(role) for role in job.ignore_exit)

    def _start(self, job: Job, on_event: EventHandler) -> None:
        kind = (job.kind, dict(job.replicas))
        if kind == self._kind and self._processes and all(process.is_idle for process in self._processes):
            ports = iter(_free_ports(len(self._processes) * len(job.port_flags)))
            for process in self._processes:
                process.proceed(_with_ports(job, ports)[_PROGRAM:], on_event)
            return
        self.close()
        self._kind = kind
        names = job.processes()
        # All at once, so that they differ.
        ports = iter(_free_ports(len(names) * (1 + len(job.port_flags))))
        addresses: dict[str, list[str]] = {}
        for role, _ in names:
            addresses.setdefault(role, []).append(f"{_LOOPBACK}:{next(ports)}")
        for role, index in names:
            # A single one needs no cluster.
            environment = _inherited() | ({"TF_CONFIG": tf_config(addresses, role, index)} if len(names) > 1 else {})
            started = LocalProcess(
                f"{role} {index}", _with_ports(job, ports), environment, on_event, lives_on=self._keeps(job)
            )
            self._processes.append(started)

    def _restart(self, process: LocalProcess, selector: selectors.BaseSelector) -> None:
        """Start one process again as it was, while the others go on."""
        process.unwatch(selector)
        stop([process])
        started = process.again()
        self._processes[self._processes.index(process)] = started
        started.watch(selector)


class _Restarts:
    """Counts the restarts of a job."""

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0

    def count(self, lost: str, what: str) -> None:
        """Count one more, of what is started again since a process was lost.

        Raises:
            RetryableError: there were too many.
        """
        if self._count == self._most:
            raise RetryableError(f"{lost}, after {self._most} restarts")
        self._count += 1
        logger.warning("%s; starting %s again (%d of %d)", lost, what, self._count, self._most)


def _follow(processes: Sequence[LocalProcess], job: Job, selector: selectors.BaseSelector) -> ProcessesDecision:
    """Pass on what the processes write until they have ended, one way or another."""
    while (verdict := _judge(processes, job)).action is Action.GO_ON:
        _pass_on(selector)
        _check_reader()
    return verdict


def _let_end(processes: Sequence[LocalProcess], selector: selectors.BaseSelector) -> None:
    """Give those that end with others the time to do so, once these have ended."""
    end = time.monotonic() + _LAST_SECONDS
    while any(process.exit_code is None for process in processes) and time.monotonic() < end:
        _pass_on(selector)
    for process in processes:
        process.drain()


def _pass_on(selector: selectors.BaseSelector) -> None:
    for key, _ in selector.select(_INTERVAL):
        if not key.data():
            selector.unregister(key.fileobj)


def _judge(processes: Sequence[LocalProcess], job: Job) -> ProcessesDecision:
    seen = [
        ProcessObservation(
            process.name,
            process.exit_code,
            process.seconds_since_heartbeat(),
            role in job.ignore_exit,
            role in job.restart_individually,
        )
        for process, (role, _) in zip(processes, job.processes(), strict=True)
    ]
    return decide(seen, job.heartbeat_timeout_seconds)


def _check_reader() -> None:
    """End when nobody reads our output any more, as where whoever started this process is gone.

    Raises:
        RetryableError: the other end of the pipe is closed.
    """
    with contextlib.suppress(OSError, ValueError):
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        if any(event & select.POLLERR for _, event in poll.poll(0)):
            raise RetryableError("nobody reads the training's output any more; its workers were ended")


def _with_ports(job: Job, ports: Iterator[int]) -> tuple[str, ...]:
    """Return the arguments of the next process; all share this host, so each gets its own ports."""
    return (*job.argv, *(word for flag in job.port_flags for word in (flag, str(next(ports)))))


def _inherited() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("TF_CONFIG", "CLUSTER_SPEC")}


def _free_ports(count: int) -> list[int]:
    """Return ports on which nothing listens; all are held until the last is found, so they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for held in sockets:
            held.bind((_LOOPBACK, 0))
        return [held.getsockname()[1] for held in sockets]
