"""Run the processes of a job locally, and restart them after retryable errors."""

import contextlib
import dataclasses
import enum
import logging
import os
import select
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from qcnn.errors import RetryableError, TrainingError
from qcnn.jobs.job import JobSpec, tf_config
from qcnn.jobs.local.processes import (
    EventHandler,
    IsInterrupted,
    LineHandler,
    LocalProcess,
    StopHandler,
    never_interrupted,
    print_line,
    stop,
)
from qcnn.process.exit_codes import is_permanent_error
from qcnn.process.library_loading import START_TIMEOUT_SECONDS
from qcnn.process.limits import process_limits, reached_limit
from qcnn.process.local_ports import LOOPBACK, reserved_ports
from qcnn.process.signals import terminated_as_interrupt
from qcnn.process.standard_streams import ERROR, FAULTS


class Action(enum.Enum):
    """Action for the processes of a job."""

    CONTINUE = "let them run"
    RETURN = "return: all processes have succeeded"
    FAIL = "fail: a process ended with a permanent error"
    RESTART_ALL = "restart all processes: one failed with a retryable error"
    RESTART_ONE = "restart one process, which failed with a retryable error"


@dataclasses.dataclass(frozen=True)
class ProcessObservation:
    """Observed state of a process: its exit code, negative for a signal, or None while it runs.

    With `ignore_exit`, the job ends without waiting for the process. With `restart_individually`, the other processes
    continue after it has failed. With `is_starting`, it has sent no heartbeat yet, and the seconds are those since its
    start.
    """

    name: str
    exit_code: int | None
    seconds_since_heartbeat: float
    ignore_exit: bool = False
    restart_individually: bool = False
    is_starting: bool = False


@dataclasses.dataclass(frozen=True)
class ProcessesDecision:
    """Action, and the process that caused it."""

    action: Action
    process: ProcessObservation | None = None


def decide(processes: Sequence[ProcessObservation], heartbeat_timeout_seconds: float) -> ProcessesDecision:
    """Return the action for the observed processes.

    Args:
        processes: Observations of all processes of a job.
        heartbeat_timeout_seconds: Seconds without a heartbeat after which a process must be restarted. A process that
            is starting has `START_TIMEOUT_SECONDS` at least.
    """
    if all(process.exit_code == 0 for process in processes if not process.ignore_exit):
        return ProcessesDecision(Action.RETURN)
    failed = [process for process in processes if process.exit_code]
    if failed:
        cause = min(failed, key=_cause_order)
        action = Action.FAIL if is_permanent_error(cause.exit_code or 0) else _restart_action(cause)
        return ProcessesDecision(action, cause)
    running = [process for process in processes if process.exit_code is None]
    hanging = [each for each in running if each.seconds_since_heartbeat > _timeout(each, heartbeat_timeout_seconds)]
    return ProcessesDecision(_restart_action(hanging[0]), hanging[0]) if hanging else ProcessesDecision(Action.CONTINUE)


def explain(process: ProcessObservation, last_line: str, heartbeat_timeout_seconds: float) -> str:
    """Return the error message for a failed process.

    Args:
        process: The process that failed.
        last_line: Last line of its output.
        heartbeat_timeout_seconds: Heartbeat timeout of the job, which a running process has exceeded.
    """
    if process.exit_code is None:
        return f"{process.name} sent no heartbeat for {_timeout(process, heartbeat_timeout_seconds):g} s"
    if process.exit_code < 0:
        number = signal.Signals(-process.exit_code)
        # The last line is unrelated to other signals.
        reason = f": {last_line}" if last_line and number in FAULTS else ""
        return f"{process.name} was killed by {number.name}{reason}"
    reason = last_line.removeprefix(ERROR) or "it printed nothing"
    return f"{process.name} ended with exit code {process.exit_code}: {reason}"


def _timeout(process: ProcessObservation, heartbeat_timeout_seconds: float) -> float:
    return max(heartbeat_timeout_seconds, START_TIMEOUT_SECONDS if process.is_starting else 0.0)


def _restart_action(process: ProcessObservation) -> Action:
    return Action.RESTART_ONE if process.restart_individually else Action.RESTART_ALL


def _cause_order(process: ProcessObservation) -> tuple[bool, bool, bool]:
    """Return the sort key that puts the root cause of simultaneous failures first.

    Permanent errors come first, then processes that the other ones depend on. Among these, killed processes precede
    processes that ended because another process failed.
    """
    code = process.exit_code or 0
    return not is_permanent_error(code), process.restart_individually, code > 0


logger = logging.getLogger("qcnn")

# Exit codes after SIGINT.
_INTERRUPTED = (128 + signal.SIGINT, -signal.SIGINT)
_TERMINATED = (128 + signal.SIGTERM, -signal.SIGTERM)
# Seconds between two checks of the processes, and until a SIGTERM of all processes has also reached this one.
_INTERVAL, _SIGNAL_SECONDS = 0.1, 0.5
# Seconds that processes with `ignore_exit` may run after all other processes have succeeded.
_LAST_SECONDS = 30.0
# Number of arguments that name the program: python -m MODULE.
_PROGRAM_LENGTH = 3


def run_processes(
    job: JobSpec, on_event: EventHandler, output: LineHandler = print_line, server: str | None = None
) -> None:
    """Run the processes of a job until they succeed, and restart them after retryable errors.

    A retryable error is a signal, an exit code above 127, or no heartbeat for `job.heartbeat_timeout_seconds` (see
    `decide`). All processes of an attempt have exited before the next attempt begins, unless the failed process is
    restarted alone.

    Args:
        job: Job to run.
        on_event: Handler of the events of the processes.
        output: Handler of their output lines.
        server: Address of the fork server, see `start_process`.

    Raises:
        QcnnError: If a process ends with a permanent error that it has sent.
        TrainingError: If a process ends with another permanent error, or reaches a limit of ulimit. The message
            contains its last line or the limit.
        RetryableError: If retryable errors occur more often than `job.restarts`.
    """
    with contextlib.closing(ProcessPool(lambda: server, lives_on=False)) as pool:
        pool.run(job, on_event, output)


class ProcessPool:
    """Local processes that run one job after the other, with `lives_on` in the same processes.

    New processes are started for a job of another `kind` or number of processes, after a failed job, after a job that
    has processes with `ignore_exit`, and if a process has exited by itself, which bounds its memory.
    """

    def __init__(self, server: Callable[[], str | None] = lambda: None, *, lives_on: bool) -> None:
        """Create a pool without processes.

        Args:
            server: Function that returns the address of a fork server that runs, see `start_process`.
            lives_on: Whether the processes can run further jobs.
        """
        self._server, self._is_reusable = server, lives_on
        self._kind: object = None
        self._processes: list[LocalProcess] = []
        self._ports = contextlib.ExitStack()

    def run(
        self,
        job: JobSpec,
        on_event: EventHandler,
        output: LineHandler = print_line,
        should_stop: StopHandler | None = None,
        is_interrupted: IsInterrupted = never_interrupted,
    ) -> None:
        """Run a job (see `run_processes`).

        Args:
            job: Job to run.
            on_event: Handler of the events of the processes.
            output: Handler of their output lines.
            should_stop: Function that decides after each epoch whether training stops, or None. The processes wait for
                it. What it raises ends the processes.
            is_interrupted: Function that decides whether another thread ends this job.

        Raises:
            KeyboardInterrupt: If another thread ends this job.
        """
        restarts = _RestartCounter(job.restarts)
        with terminated_as_interrupt():
            while reason := self._attempt(job, on_event, output, should_stop, is_interrupted, restarts):
                restarts.count(reason, "all workers")

    def close(self) -> None:
        """Terminate all processes."""
        stop(self._processes)
        self._processes = []
        self._ports.close()

    def _attempt(
        self,
        job: JobSpec,
        on_event: EventHandler,
        output: LineHandler,
        should_stop: StopHandler | None,
        is_interrupted: IsInterrupted,
        restarts: "_RestartCounter",
    ) -> str | None:
        """Run the processes once.

        Returns:
            The reason to restart all processes, or None if they have succeeded.
        """
        with contextlib.ExitStack() as stack:
            selector = stack.enter_context(selectors.DefaultSelector())
            stack.callback(self.close)
            self._start(job, on_event, output, confirms=should_stop is not None)
            for process in self._processes:
                process.watch(selector)
            while (
                decision := _wait_for_decision(self._processes, job, selector, should_stop, is_interrupted)
            ).process is not None:
                is_in_thread = threading.current_thread() is not threading.main_thread()
                if is_in_thread and decision.process.exit_code in _INTERRUPTED:
                    # Ctrl-C in a terminal or notebook reaches all processes, but no thread except the main one.
                    raise KeyboardInterrupt
                failed = next(process for process in self._processes if process.name == decision.process.name)
                if decision.process.exit_code is not None:
                    failed.drain()
                limit = _reached_limit(decision.process, failed)
                last = limit or str(failed.error or failed.last_line)
                reason = explain(decision.process, last, job.heartbeat_timeout_seconds)
                # After a limit is reached, a restarted process would reach it again.
                if limit or decision.action is Action.FAIL:
                    raise TrainingError(reason) if limit or not failed.error else failed.error
                if decision.action is Action.RESTART_ALL:
                    return reason
                restarts.count(reason, failed.name)
                self._restart(failed, selector)
            for process in self._processes:
                process.drain()
            if self._can_reuse(job):
                # The processes stay open for the next job.
                stack.pop_all()
                selector.close()
            else:
                _wait_for_exit(self._processes, selector, is_interrupted)
            return None

    def _can_reuse(self, job: JobSpec) -> bool:
        """Return whether the next job may use the processes of a job.

        Processes with `ignore_exit` end when the other ones exit, so jobs with such processes are excluded.
        """
        return self._is_reusable and not any(job.replicas.get(role) for role in job.ignore_exit)

    def _start(self, job: JobSpec, on_event: EventHandler, output: LineHandler, *, confirms: bool) -> None:
        kind = (job.kind, dict(job.replicas))
        if kind == self._kind and self._processes and all(process.is_idle for process in self._processes):
            # A process listens on the ports of its first job.
            for process in self._processes:
                process.proceed(job.argv[_PROGRAM_LENGTH:], on_event, output, confirms=confirms)
            return
        self.close()
        self._kind = kind
        server = self._server()
        names = job.processes()
        ports = iter(self._ports.enter_context(reserved_ports(len(names) * (1 + len(job.port_flags)))))
        addresses: dict[str, list[str]] = {}
        for role, _ in names:
            addresses.setdefault(role, []).append(f"{LOOPBACK}:{next(ports)}")
        for role, index in names:
            # A job with a single process needs no cluster.
            environment = _base_environment()
            if len(names) > 1:
                environment["TF_CONFIG"] = tf_config(addresses, role, index)
            argv = _argv_with_ports(job, ports)
            self._processes.append(
                LocalProcess(
                    f"{role} {index}",
                    argv,
                    environment,
                    on_event,
                    output,
                    server,
                    is_reusable=self._can_reuse(job),
                    confirms=confirms,
                )
            )

    def _restart(self, process: LocalProcess, selector: selectors.BaseSelector) -> None:
        """Restart one process while the others continue."""
        process.unwatch(selector)
        stop([process])
        restarted = process.restart()
        self._processes[self._processes.index(process)] = restarted
        restarted.watch(selector)


class _RestartCounter:
    """Counter of the restarts of a job."""

    def __init__(self, limit: int) -> None:
        self._limit, self._count = limit, 0

    def count(self, reason: str, restarted: str) -> None:
        """Count and log one restart.

        Raises:
            RetryableError: If the limit is exceeded.
        """
        if self._count == self._limit:
            raise RetryableError(f"{reason}, after {self._limit} restarts")
        self._count += 1
        logger.warning("%s; restarting %s (%d of %d)", reason, restarted, self._count, self._limit)


def _reached_limit(observation: ProcessObservation, process: LocalProcess) -> str | None:
    """Return the message for the limit of a process (ulimit) that has caused its exit code or crash, or None."""
    code = observation.exit_code
    if not code or (code < 0 and -code not in FAULTS):
        return None
    return reached_limit("\n".join(process.last_lines), process_limits(), crashed=code < 0)


def _wait_for_decision(
    processes: Sequence[LocalProcess],
    job: JobSpec,
    selector: selectors.BaseSelector,
    should_stop: StopHandler | None,
    is_interrupted: IsInterrupted,
) -> ProcessesDecision:
    """Forward the output of the processes until an action is required, and return the decision.

    Raises:
        KeyboardInterrupt: If another thread ends the job.
    """
    while True:
        if should_stop:
            # Before the output is read, because the function may take longer than the heartbeat timeout.
            _answer(processes, should_stop)
        # Read before the decision, because this process itself may have been suspended, or its output blocked.
        _forward_output(selector)
        decision = _decide(processes, job)
        if decision.process is not None and decision.process.exit_code in _TERMINATED:
            _wait_for_signal(is_interrupted)
        # The signal may also have ended a process.
        if decision.action is not Action.RETURN and is_interrupted():
            raise KeyboardInterrupt
        if decision.action is not Action.CONTINUE:
            return decision
        _check_output_pipe()


def _wait_for_signal(is_interrupted: IsInterrupted) -> None:
    """Wait until this process or another thread has handled a signal that has also ended a process of the job.

    A job without restarts would otherwise fail, and its study would keep the failure as a result.
    """
    end = time.monotonic() + _SIGNAL_SECONDS
    while not is_interrupted() and time.monotonic() < end:
        time.sleep(_INTERVAL)


def _answer(processes: Sequence[LocalProcess], should_stop: StopHandler) -> None:
    """Continue or stop the processes that wait after an epoch."""
    for process in processes:
        if process.ended_epoch is not None and (stops := should_stop(process.ended_epoch)) is not None:
            process.answer(stops=stops)


def _wait_for_exit(
    processes: Sequence[LocalProcess], selector: selectors.BaseSelector, is_interrupted: IsInterrupted
) -> None:
    """Wait up to `_LAST_SECONDS` for the processes with `ignore_exit` to exit, unless another thread ends the job."""
    end = time.monotonic() + _LAST_SECONDS
    while any(process.exit_code is None for process in processes) and time.monotonic() < end and not is_interrupted():
        _forward_output(selector)
    for process in processes:
        process.drain()


def _forward_output(selector: selectors.BaseSelector) -> None:
    for key, _ in selector.select(_INTERVAL):
        if not key.data():
            selector.unregister(key.fileobj)


def _decide(processes: Sequence[LocalProcess], job: JobSpec) -> ProcessesDecision:
    observations = [
        ProcessObservation(
            process.name,
            process.exit_code,
            process.seconds_since_heartbeat(),
            role in job.ignore_exit,
            role in job.restart_individually,
            process.is_starting,
        )
        for process, (role, _) in zip(processes, job.processes(), strict=True)
    ]
    return decide(observations, job.heartbeat_timeout_seconds)


def _check_output_pipe() -> None:
    """Check that the pipe of stdout is open.

    It closes when the parent process exits.

    Raises:
        RetryableError: If the other end of the pipe is closed.
    """
    with contextlib.suppress(OSError, ValueError):
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        if any(event & select.POLLERR for _, event in poll.poll(0)):
            raise RetryableError("output pipe closed; the workers were terminated")


def _argv_with_ports(job: JobSpec, ports: Iterator[int]) -> tuple[str, ...]:
    """Return the command of the next process, with separate ports because all processes share this host."""
    return (*job.argv, *(argument for flag in job.port_flags for argument in (flag, str(next(ports)))))


def _base_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("TF_CONFIG", "CLUSTER_SPEC")}
