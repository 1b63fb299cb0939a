"""Run a training job as processes of this machine, on loopback ports, and start it again when workers are lost."""

import contextlib
import logging
import os
import select
import selectors
import socket
import sys
from collections.abc import Iterator, Sequence

from launchers.job import Job, tf_config
from launchers.local.processes import EventHandler, Process, stop
from launchers.local.verdict import Action, Seen, Verdict, explain, judge
from trainer.errors import RetryableError, TrainingError
from trainer.startup import terminated_as_interrupt

logger = logging.getLogger("qcnn")

_LOOPBACK = "127.0.0.1"
# How often the processes are looked at, in seconds.
_INTERVAL = 0.1
# How many of a job's words name its program: python -m MODULE.
_PROGRAM = 3


def run_processes(job: Job, on_event: EventHandler) -> None:
    """Run every process of a job to its end; start all again, `job.restarts` times at most, when one was lost.

    A process is lost that was ended by a signal, ended with an exit code above 127, or gave no sign of life for
    `job.hang_seconds`. All processes of an attempt have ended before the next attempt begins.

    Raises:
        TrainingError: a process failed by its own fault; its last line says why.
        RetryableError: workers were lost more often than `job.restarts`.
    """
    with contextlib.closing(Crew(lives_on=False)) as crew:
        crew.run(job, on_event)


class Crew:
    """The processes of one job after the other: where they `live_on`, those of one job are those of the next.

    They are started anew for a job of another `kind` or number of processes, and after one that failed.
    """

    def __init__(self, *, lives_on: bool) -> None:
        self._lives_on = lives_on
        self._kind: object = None
        self._processes: list[Process] = []

    def run(self, job: Job, on_event: EventHandler) -> None:
        """Run a job as `run_processes` does."""
        with terminated_as_interrupt():
            for restart in range(job.restarts + 1):
                lost = self._attempt(job, on_event)
                if lost is None:
                    return
                if restart < job.restarts:
                    logger.warning("%s; starting all workers again (%d of %d)", lost, restart + 1, job.restarts)
        raise RetryableError(f"{lost}, after {job.restarts} restarts")

    def close(self) -> None:
        """End all processes."""
        stop(self._processes)
        self._processes = []

    def _attempt(self, job: Job, on_event: EventHandler) -> str | None:
        """Run the processes once; return None when all ended well, else which one was lost and how."""
        with contextlib.ExitStack() as stack:
            selector = stack.enter_context(selectors.DefaultSelector())
            stack.callback(self.close)
            self._start(job, on_event)
            for process in self._processes:
                process.watch(selector)
            verdict = _follow(self._processes, selector, job.hang_seconds)
            if verdict.process is None:
                for process in self._processes:
                    process.drain()
                if self._lives_on:
                    # Nothing to close yet but what this attempt looked at them with.
                    stack.pop_all()
                    selector.close()
                return None
            blamed = next(process for process in self._processes if process.name == verdict.process.name)
            if verdict.process.exit_code is not None:
                blamed.drain()
            reason = explain(verdict.process, blamed.last_line, job.hang_seconds)
            if verdict.action is Action.FAILED:
                raise TrainingError(reason)
            return reason

    def _start(self, job: Job, on_event: EventHandler) -> None:
        kind = (job.kind, dict(job.replicas))
        if kind == self._kind and self._processes and all(process.is_idle for process in self._processes):
            for process, argv in zip(self._processes, _arguments(job), strict=True):
                process.proceed(argv[_PROGRAM:], on_event)
            return
        self.close()
        self._kind = kind
        for (role, index), argv, environment in zip(job.processes(), _arguments(job), _environments(job), strict=True):
            name = f"{role} {index}"
            self._processes.append(Process(name, argv, environment, on_event, lives_on=self._lives_on))


def _follow(processes: Sequence[Process], selector: selectors.BaseSelector, hang_seconds: float) -> Verdict:
    """Pass on what the processes write until they have ended, one way or another."""
    while (verdict := _judge(processes, hang_seconds)).action is Action.GO_ON:
        for key, _ in selector.select(_INTERVAL):
            if not key.data():
                selector.unregister(key.fileobj)
        _check_reader()
    return verdict


def _judge(processes: Sequence[Process], hang_seconds: float) -> Verdict:
    return judge([Seen(process.name, process.exit_code, process.silent_for()) for process in processes], hang_seconds)


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


def _arguments(job: Job) -> Iterator[tuple[str, ...]]:
    """Yield the arguments of every process; all share this host, so each gets its own ports."""
    ports = iter(_free_ports(len(job.processes()) * len(job.port_flags)))
    for _ in job.processes():
        yield (*job.argv, *(word for flag in job.port_flags for word in (flag, str(next(ports)))))


def _environments(job: Job) -> Iterator[dict[str, str]]:
    """Yield the environment of every process; a single one needs no cluster."""
    names = job.processes()
    inherited = {key: value for key, value in os.environ.items() if key not in ("TF_CONFIG", "CLUSTER_SPEC")}
    if len(names) == 1:
        yield inherited
        return
    ports = iter(_free_ports(len(names)))
    addresses: dict[str, list[str]] = {}
    for role, _ in names:
        addresses.setdefault(role, []).append(f"{_LOOPBACK}:{next(ports)}")
    for role, index in names:
        yield {**inherited, "TF_CONFIG": tf_config(addresses, role, index)}


def _free_ports(count: int) -> list[int]:
    """Return ports on which nothing listens; all are held until the last is found, so they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for held in sockets:
            held.bind((_LOOPBACK, 0))
        return [held.getsockname()[1] for held in sockets]
