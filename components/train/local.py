"""Run a training job as processes of this machine, on loopback ports."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

from components.train.job import Job, tf_config
from trainer.errors import TrainingError

_LOOPBACK = "127.0.0.1"
# A process that was told to stop gets this long before it is killed, in seconds.
_GRACE = 5.0


def run_processes(job: Job) -> None:
    """Start every process of a job, pass their output on with a prefix, and wait for all of them.

    The first that fails ends the others.

    Raises:
        TrainingError: a process failed; its last line says why.
    """
    names = job.processes()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_terminated_as_interrupt())
        starts = zip(names, _arguments(job), _environments(job), strict=True)
        running = [_Process(name, argv, env) for name, argv, env in starts]
        for process in running:
            stack.callback(process.stop)
        failed = _wait(running)
        if failed:
            raise TrainingError(
                f"{failed.name} ended with exit code {failed.exit_code}: {failed.last_line or 'it printed nothing'}"
            )


class _Process:
    """A process whose output lines are passed on as they come."""

    def __init__(self, name: tuple[str, int], argv: tuple[str, ...], environment: dict[str, str]) -> None:
        self.name = f"{name[0]} {name[1]}"
        self.last_line = ""
        self._popen = subprocess.Popen(
            argv,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.ended = threading.Event()
        self._reader = threading.Thread(target=self._pass_on, daemon=True)
        self._reader.start()

    @property
    def exit_code(self) -> int | None:
        return self._popen.poll()

    def _pass_on(self) -> None:
        with self._popen:
            assert self._popen.stdout is not None
            for line in self._popen.stdout:
                self.last_line = line.rstrip() or self.last_line
                sys.stdout.write(f"[{self.name}] {line}")
                sys.stdout.flush()
        self.ended.set()

    def stop(self) -> None:
        """End the process: ask, wait, kill."""
        if self._popen.poll() is None:
            self._popen.terminate()
            try:
                self._popen.wait(_GRACE)
            except subprocess.TimeoutExpired:
                self._popen.kill()
        self._reader.join()


def _wait(processes: list[_Process]) -> _Process | None:
    """Wait until all have ended or one has failed; return that one."""
    waiting = list(processes)
    while waiting:
        for process in waiting:
            if process.ended.wait(0.05 / len(waiting)):
                if process.exit_code != 0:
                    return process
                waiting = [other for other in waiting if other is not process]
                break
    return None


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


@contextlib.contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """Let SIGTERM unwind like Ctrl-C, so that the processes are stopped on the way out."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
