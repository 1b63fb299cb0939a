"""Starts processes of Python: forked from one that has loaded its libraries where there is one, else anew.

A run of this machine loads TensorFlow once, not in each of its processes, which takes seconds.
"""

import contextlib
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from qcnn.jobs.local.fork_protocol import (
    READY,
    REFUSED,
    VARIABLE,
    receive_status,
    send_request,
)
from qcnn.operating_system import has_fork_server, is_same_user

_BACKLOG = 1024
# Signals that a fork server ignores; what is forked from it does where the process that asked for it does.
_PASSED_ON = (signal.SIGINT, signal.SIGTERM)


class ChildProcess(Protocol):
    """A process that was started here, as subprocess.Popen knows it."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit code, minus the signal's number where one ended it, None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended; raises subprocess.TimeoutExpired."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def kill(self) -> None:
        """Send SIGKILL."""


class ForkServer:
    """A process from which others are forked once it has loaded its modules; none where `pid` is None."""

    def __init__(self, pid: int | None, connection: socket.socket | None) -> None:
        self.pid = pid
        self._connection = connection

    @property
    def is_ready(self) -> bool:
        """Whether it would fork now, rather than once everything is loaded."""
        if not self._connection:
            return False
        with contextlib.suppress(BlockingIOError):
            return self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == READY
        return False


@contextlib.contextmanager
def fork_server(modules: Sequence[str]) -> Iterator[ForkServer]:
    """Start a process that loads modules, from which those that are started in this block are forked.

    It ends with this block, or with the process that runs it, and whatever was forked from it with it. Where the
    operating system allows none, each process loads what it needs.
    """
    if not has_fork_server():
        yield ForkServer(None, None)
        return
    address = f"qcnn-{secrets.token_hex(16)}"
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(f"\0{address}")
        listener.listen(_BACKLOG)
        connection, its_end = map(stack.enter_context, socket.socketpair())
        # Signals to all of a session are for the processes that it forks: it stays to report how they end by them.
        words = ("sh", "-c", 'trap "" INT TERM; exec "$@"', "sh", sys.executable, "-m", "qcnn.jobs.local.fork_server")
        server = subprocess.Popen(
            (*words, str(listener.fileno()), *modules),
            stdin=its_end.fileno(),
            # As little of a terminal or a file as the pipes of those that it forks: Python looks at it once.
            stdout=its_end.fileno(),
            pass_fds=(listener.fileno(),),
        )
        stack.callback(server.wait)
        # It may still be loading, for seconds.
        stack.callback(server.kill)
        stack.callback(connection.close)
        listener.close()
        its_end.close()
        os.environ[VARIABLE] = address
        stack.callback(os.environ.pop, VARIABLE, None)
        yield ForkServer(server.pid, connection)


def start_process(
    argv: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    pass_fds: Sequence[int] = (),
) -> ChildProcess:
    """Start a process with these descriptors, forked from the fork server of this process where it has one.

    Only python -m MODULE ... with the libraries' settings of that server is; anything else is started as usual, and so
    is everything where the server is gone. A process that was forked ends with the one that asked for it.
    """
    descriptors = {0: stdin, 1: stdout, 2: stderr, **{number: number for number in pass_fds}}
    if (address := os.environ.get(VARIABLE)) and argv[1] == "-m":
        with contextlib.suppress(OSError):
            if forked := _fork(address, argv, environment, descriptors):
                return forked
    return subprocess.Popen(argv, env=environment, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=tuple(pass_fds))


class _Forked:
    """A child of the fork server."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.pid = pid
        self._connection = connection
        self._exit_code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, minus the signal's number where one ended it, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not within so many seconds.
        """
        if self._exit_code is None:
            readable, _, _ = select.select([self._connection], [], [], timeout)
            if not readable:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            code = receive_status(self._connection)
            # Without its server it was killed.
            self._exit_code = -signal.SIGKILL if code is None else code
            self._connection.close()
        return self._exit_code

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        # By way of its parent, which knows whether the process id is still its own.
        if self._exit_code is None:
            with contextlib.suppress(OSError):
                self._connection.sendall(bytes([number]))


def _fork(
    address: str, argv: Sequence[str], environment: Mapping[str, str], descriptors: Mapping[int, int]
) -> _Forked | None:
    """Return a child of the fork server, None where it is gone or would not fork this one."""
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(socket.socket(socket.AF_UNIX))
        connection.connect(f"\0{address}")
        if not is_same_user(connection):
            return None
        request = {
            "argv": list(argv[2:]),
            "environment": dict(environment),
            "folder": str(Path.cwd()),
            "ignored": [number for number in _PASSED_ON if signal.getsignal(number) is signal.SIG_IGN],
            "descriptors": list(descriptors),
        }
        send_request(connection, request, list(descriptors.values()))
        pid = receive_status(connection)
        if pid is None or pid == REFUSED:
            return None
        # The child lives as long as the connection.
        stack.pop_all()
    return _Forked(connection, pid)
