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


def run_processes(job: Job, on_event: EventHandler) -> None:
    """Run every process of a job to its end; start all again, `job.restarts` times at most, when one was lost.

    A process is lost that was ended by a signal, ended with an exit code above 127, or gave no sign of life for
    `job.hang_seconds`. All processes of an attempt have ended before the next attempt begins.

    Raises:
        TrainingError: a process failed by its own fault; its last line says why.
        RetryableError: workers were lost more often than `job.restarts`.
    """
    with terminated_as_interrupt():
        for restart in range(job.restarts + 1):
            lost = _attempt(job, on_event)
            if lost is None:
                return
            if restart < job.restarts:
                logger.warning("%s; starting all workers again (%d of %d)", lost, restart + 1, job.restarts)
    raise RetryableError(f"{lost}, after {job.restarts} restarts")


def _attempt(job: Job, on_event: EventHandler) -> str | None:
    """Run the processes once; return None when all ended well, else which one was lost and how."""
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        running: list[Process] = []
        stack.callback(stop, running)
        starts = zip(job.processes(), _arguments(job), _environments(job), strict=True)
        for (role, index), argv, environment in starts:
            process = Process(f"{role} {index}", argv, environment, on_event)
            running.append(process)
            process.watch(selector)
        by_name = {process.name: process for process in running}
        while (verdict := _judge(running, job.hang_seconds)).action is Action.GO_ON:
            for key, _ in selector.select(_INTERVAL):
                if not key.data():
                    selector.unregister(key.fileobj)
            _check_reader()
        if verdict.process is None:
            for process in running:
                process.drain()
            return None
        blamed = by_name[verdict.process.name]
        if verdict.process.exit_code is not None:
            blamed.drain()
        reason = explain(verdict.process, blamed.last_line, job.hang_seconds)
        if verdict.action is Action.FAILED:
            raise TrainingError(reason)
        return reason


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
