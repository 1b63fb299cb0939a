"""Run a training job as processes of this machine, on loopback ports, and start it again when workers are lost."""

import contextlib
import logging
import os
import select
import selectors
import signal
import socket
import sys
from collections.abc import Iterator

from launchers.job import Job, tf_config
from launchers.local.processes import EventHandler, Process, stop
from trainer.errors import RetryableError, TrainingError
from trainer.startup import is_own_fault, terminated_as_interrupt

logger = logging.getLogger("qcnn")

_LOOPBACK = "127.0.0.1"
# How often the processes are looked at, in seconds.
_INTERVAL = 0.1


def run_processes(job: Job, on_event: EventHandler) -> None:
    """Run every process of a job to its end; start all again, `job.restarts` times at most, when one was lost.

    Lost is who was ended by a signal, ended with an exit code above 127, or gave no sign of life for
    `job.hang_seconds`. All processes of an attempt have ended before the next begins.

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
    """Run the processes once; return None when all ended well, else in words who was lost and how."""
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        running: list[Process] = []
        stack.callback(stop, running)
        starts = zip(job.processes(), _arguments(job), _environments(job), strict=True)
        for (role, index), argv, environment in starts:
            process = Process(f"{role} {index}", argv, environment, on_event)
            running.append(process)
            process.watch(selector)
        while any(process.exit_code != 0 for process in running):
            for key, _ in selector.select(_INTERVAL):
                if not key.data():
                    selector.unregister(key.fileobj)
            _check_reader()
            failed = [process for process in running if process.exit_code not in (None, 0)]
            if failed:
                return _explain(min(failed, key=_blame))
            for process in running:
                if process.exit_code is None and process.silent_for() > job.hang_seconds:
                    return f"{process.name} gave no sign of life for {job.hang_seconds:g} s"
        for process in running:
            process.drain()
    return None


def _blame(process: Process) -> int:
    """Order the failed of one moment: own faults first, then the killed, then those who only lost a peer."""
    code = process.exit_code or 0
    if is_own_fault(code):
        return 0
    return 1 if code < 0 else 2


def _explain(process: Process) -> str:
    process.drain()
    code = process.exit_code or 0
    if is_own_fault(code):
        raise TrainingError(f"{process.name} ended with exit code {code}: {process.last_line or 'it printed nothing'}")
    if code < 0:
        return f"{process.name} was killed by {signal.Signals(-code).name}"
    return f"{process.name} ended with exit code {code}: {process.last_line or 'it printed nothing'}"


def _check_reader() -> None:
    """End when nobody reads our output any more: whoever started this is gone.

    Raises:
        RetryableError: the other end of the pipe is closed.
    """
    with contextlib.suppress(OSError, ValueError):
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        if any(event & select.POLLERR for _, event in poll.poll(0)):
            raise RetryableError("nobody reads the training's output any more; its workers were ended")


def _arguments(job: Job) -> Iterator[tuple[str, ...]]:
    """Yield the arguments of every process; all share this host, so each gets ports of its own."""
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
    """Return ports that nothing listens on; all are held until the last is found, so none comes twice."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for held in sockets:
            held.bind((_LOOPBACK, 0))
        return [held.getsockname()[1] for held in sockets]
