"""Start Python processes, forked from a fork server that has loaded the libraries if one runs.

With a fork server, a local run loads TensorFlow once instead of once per process. Loading takes seconds.
"""

import concurrent.futures
import contextlib
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from qcnn.jobs.local.fork_protocol import (
    READY,
    REJECTED,
    VARIABLE,
    receive_status,
    send_request,
)
from qcnn.process.limits import check_limits
from qcnn.process.operating_system import has_fork_server, is_same_user

_BACKLOG = 1024
_SERVER = (sys.executable, "-m", "qcnn.jobs.local.fork_server")
# The fork server ignores these signals. A forked process ignores them only if the requesting process does.
_INHERITED_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ChildProcess(Protocol):
    """Child process with the interface of subprocess.Popen."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit code (negative signal number after a signal), or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to exit and return its exit code.

        Raises:
            subprocess.TimeoutExpired: If the process runs longer than `timeout` seconds.
        """

    def terminate(self) -> None:
        """Send SIGTERM."""

    def kill(self) -> None:
        """Send SIGKILL."""


class ForkServer:
    """Process that has loaded modules, from which other processes are forked.

    The server and all processes forked from it end when it is closed, and with this process. Without operating system
    support, there is no server and each process loads its own modules. All methods can be called by any thread.

    Attributes:
        address: Name of the server's socket, or empty without a server.
        pid: Process ID of the server, or None without a server.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        """Start the server, which then loads the modules.

        Args:
            modules: Names of the modules to load before the first fork.

        Raises:
            ConfigError: If a limit of this process is too small for the modules.
        """
        check_limits()
        self.address = ""
        self.pid: int | None = None
        self._stack = contextlib.ExitStack()
        if has_fork_server():
            with contextlib.ExitStack() as stack:
                self._start_server(modules, stack)
                self._stack = stack.pop_all()

    def _start_server(self, modules: Sequence[str], stack: contextlib.ExitStack) -> None:
        address = f"qcnn-{secrets.token_hex(16)}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"\0{address}")
            listener.listen(_BACKLOG)
            self._connection, server_end = map(stack.enter_context, socket.socketpair())
            # Signals to the whole session are meant for the forked processes. The server ignores them to report exit
            # codes.
            ignoring = ("sh", "-c", 'trap "" INT TERM; exec "$@"', "sh")
            self._server = _popen_in_lasting_thread(
                (*ignoring, *_SERVER, str(os.getpid()), str(listener.fileno()), *modules),
                stack,
                stdin=server_end.fileno(),
                # Python checks the type of stdout once, at startup. A socket, like the pipes of the forked processes,
                # is neither a terminal nor a file.
                stdout=server_end.fileno(),
                pass_fds=(listener.fileno(),),
            )
            stack.callback(self._server.wait)
            # SIGTERM is ignored, and loading modules may take seconds.
            stack.callback(self._server.kill)
            stack.callback(self._connection.close)
            server_end.close()
        self.address, self.pid = address, self._server.pid

    @property
    def is_ready(self) -> bool:
        """Whether the server has loaded its modules and forks immediately."""
        if self.pid is None:
            return False
        with contextlib.suppress(BlockingIOError):
            return self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == READY
        return False

    @property
    def has_exited(self) -> bool:
        """True if the server has ended, for example by the memory killer."""
        return self.pid is not None and self._server.poll() is not None

    def forget(self) -> None:
        """Close the connection in a process that was forked from this one, without an end of the server."""
        if self.pid is not None:
            self._connection.close()
        self.address = ""

    def close(self) -> None:
        """End the server and all processes forked from it."""
        self._stack.close()


def _popen_in_lasting_thread(
    command: Sequence[str], stack: contextlib.ExitStack, **arguments: Any
) -> subprocess.Popen[bytes]:
    """Start a process in a thread that continues until `stack` is closed.

    The operating system ends the server with its parent, which is the thread that has started it. The thread of the
    caller may end before.
    """
    ended = threading.Event()
    stack.callback(ended.set)
    future = concurrent.futures.Future[subprocess.Popen[bytes]]()

    def start() -> None:
        try:
            future.set_result(subprocess.Popen(command, **arguments))
        except Exception as error:
            future.set_exception(error)
        ended.wait()

    threading.Thread(target=start, name="fork server", daemon=True).start()
    return future.result()


def start_process(
    argv: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    pass_fds: Sequence[int] = (),
    folder: Path | None = None,
    address: str | None = None,
) -> ChildProcess:
    """Start a process, forked from a fork server if possible, and return it.

    A process is forked if `argv` is python -m MODULE ..., the library settings in `environment` equal those of the
    server, and the server runs. Otherwise subprocess.Popen starts it. A forked process ends with this process.

    Args:
        argv: Command line.
        environment: Complete environment of the process.
        stdin: File descriptor of its standard input.
        stdout: File descriptor of its standard output.
        stderr: File descriptor of its standard error.
        pass_fds: Other file descriptors to inherit, with the same numbers.
        folder: Its working folder, or None for that of this process.
        address: Address of the server. None: that of the server which the parent of this process shares, if it does.
    """
    descriptors = {0: stdin, 1: stdout, 2: stderr, **{number: number for number in pass_fds}}
    if address is None:
        address = os.environ.get(VARIABLE, "")
    if address and argv[1] == "-m":
        with contextlib.suppress(OSError):
            if forked := _fork(address, argv, environment, descriptors, folder or Path.cwd()):
                return forked
    return subprocess.Popen(
        argv, env=environment, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=tuple(pass_fds), cwd=folder
    )


class _ForkedProcess:
    """Child process of the fork server."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.pid = pid
        self._connection = connection
        self._exit_code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code (negative signal number after a signal), or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to exit and return its exit code.

        Raises:
            subprocess.TimeoutExpired: If the process runs longer than `timeout` seconds.
        """
        if self._exit_code is None:
            readable, _, _ = select.select([self._connection], [], [], timeout)
            if not readable:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            code = receive_status(self._connection)
            # Children are killed when the server exits.
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
        # The server sends the signal: only the parent can rule out that the process ID was reused.
        if self._exit_code is None:
            with contextlib.suppress(OSError):
                self._connection.sendall(bytes([number]))


def _fork(
    address: str, argv: Sequence[str], environment: Mapping[str, str], descriptors: Mapping[int, int], folder: Path
) -> _ForkedProcess | None:
    """Return a child of the fork server, or None if the server has exited or rejects the request."""
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(socket.socket(socket.AF_UNIX))
        connection.connect(f"\0{address}")
        if not is_same_user(connection):
            return None
        request = {
            "argv": list(argv[2:]),
            "environment": dict(environment),
            "folder": str(folder),
            "ignored": [number for number in _INHERITED_SIGNALS if signal.getsignal(number) is signal.SIG_IGN],
            "descriptors": list(descriptors),
        }
        send_request(connection, request, list(descriptors.values()))
        pid = receive_status(connection)
        if pid is None or pid == REJECTED:
            return None
        # The server kills the child when the connection closes.
        stack.pop_all()
    return _ForkedProcess(connection, pid)
