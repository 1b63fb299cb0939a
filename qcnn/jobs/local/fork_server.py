"""Fork server: load modules once and fork processes that use them (see `fork_protocol`).

Usage: python -m qcnn.jobs.local.fork_server PARENT DESCRIPTOR MODULE ...

PARENT is the ID of the parent process, DESCRIPTOR the listening socket, and stdin a socket of the parent process. The
server and its children end with the parent process.
"""

import contextlib
import dataclasses
import fcntl
import importlib
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from qcnn.jobs.local.fork_protocol import READY, REJECTED, STATUS, receive_request
from qcnn.process.import_path import append_to_path, leave_out_last
from qcnn.process.operating_system import descriptors, end_with_parent, is_same_user

# Variables that libraries read when they are loaded. A process that needs other values of them is not forked.
_READ_AT_LOAD = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "TF_", "XLA_", "CUDA_", "OMP_", "KMP_", "MKL_", "OPENBLAS_")
# The cluster configuration. It begins with TF_, but is read after loading.
_READ_LATER = "TF_CONFIG"


@dataclasses.dataclass(frozen=True)
class _Child:
    """Module to run in a forked process, with its arguments, environment and descriptors."""

    module: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    ignored: Sequence[int]
    # Descriptor number in the child -> received descriptor.
    descriptors: Mapping[int, int]


def main() -> None:
    """Load the modules of the command line and serve until the parent process exits.

    In a forked child, run the requested module.
    """
    parent_id, descriptor, *modules = sys.argv[1:]
    # The parent process may have ended before.
    end_with_parent(int(parent_id))
    folder = str(Path.cwd())
    environment = dict(os.environ)
    listener = socket.socket(fileno=int(descriptor))
    parent = socket.socket(fileno=os.dup(0))
    before = descriptors()
    _load(modules)
    server = _Server(listener, parent, environment, descriptors() - before)
    # If the parent has exited, serve() detects it.
    with contextlib.suppress(OSError):
        parent.sendall(READY)
    child = server.serve()
    end_with_parent(server.pid)
    # TensorFlow imports and deletes modules that AutoGraph generates in the temporary folder, but not their bytecode.
    sys.dont_write_bytecode = True
    _apply(child, folder)
    runpy.run_module(child.module, run_name="__main__", alter_sys=True)


def _load(modules: Sequence[str]) -> None:
    # The import sets environment variables for the libraries, so it follows the copy of the environment in main().
    from qcnn.process.library_loading import loading

    with loading():
        for module in modules:
            importlib.import_module(module)


class _Server:
    """Server that forks children, forwards signals to them and reports their exit codes."""

    def __init__(
        self, listener: socket.socket, parent: socket.socket, environment: Mapping[str, str], opened: Set[int]
    ) -> None:
        self.pid = os.getpid()
        self._opened = opened
        self._environment = environment
        self._listener, self._parent = listener, parent
        self._clients: dict[int, socket.socket] = {}
        self._new_clients: set[socket.socket] = set()
        self._woken, self._wakeup = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for source in (listener, parent, self._woken):
            self._selector.register(source, selectors.EVENT_READ)

    def serve(self) -> _Child:
        """Serve until the parent process exits.

        Returns:
            The module to run. Only a forked child returns.
        """
        self._woken.setblocking(False)
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        # Python writes only signals that have a handler to the wakeup descriptor.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._parent:
                    # The children end with this process.
                    os._exit(0)
                elif key.fileobj is self._woken:
                    self._report_exits()
                elif key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket) and (child := self._handle(key.fileobj)):
                    return child

    def _report_exits(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
        for pid in list(self._clients):
            exited, status = os.waitpid(pid, os.WNOHANG)
            if exited:
                client = self._clients.pop(pid)
                with contextlib.suppress(OSError):
                    client.sendall(struct.pack(STATUS, os.waitstatus_to_exitcode(status)))
                self._disconnect(client)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        if not is_same_user(client):
            client.close()
            return
        self._new_clients.add(client)
        self._selector.register(client, selectors.EVENT_READ)

    def _handle(self, client: socket.socket) -> _Child | None:
        """Handle a request, a signal for a child, or a closed connection.

        Returns:
            The module to run in a forked child, None in the server.
        """
        if client in self._new_clients:
            return self._handle_request(client)
        child = next((pid for pid, other in self._clients.items() if other is client), None)
        if child is None:
            return None
        try:
            signals = client.recv(4096)
        except OSError:
            signals = b""
        for number in signals or (signal.SIGKILL,):
            os.kill(child, number)
        if not signals:
            self._selector.unregister(client)
        return None

    def _handle_request(self, client: socket.socket) -> _Child | None:
        self._new_clients.discard(client)
        try:
            request, received = receive_request(client)
        except (OSError, EOFError):
            self._disconnect(client)
            return None
        pid = self._fork() if self._can_fork(request) else REJECTED
        if pid == 0:
            return self._child(request, received)
        for descriptor in received:
            os.close(descriptor)
        with contextlib.suppress(OSError):
            client.sendall(struct.pack(STATUS, pid))
        if pid == REJECTED:
            self._disconnect(client)
        else:
            self._clients[pid] = client
        return None

    @staticmethod
    def _fork() -> int:
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns about forking with threads. The threads of the numerical libraries support it.
                warnings.simplefilter("ignore", DeprecationWarning)
                return os.fork()
        except OSError:
            return REJECTED

    def _can_fork(self, request: Mapping[str, Any]) -> bool:
        if not self._opened.isdisjoint(request["descriptors"]):
            return False
        requested, loaded = (
            {name: value for name, value in each.items() if name.startswith(_READ_AT_LOAD) and name != _READ_LATER}
            for each in (request["environment"], self._environment)
        )
        return requested == loaded

    def _child(self, request: Mapping[str, Any], received: Sequence[int]) -> _Child:
        """Close the server's sockets and return the module to run."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        clients = (*self._new_clients, *self._clients.values())
        for connection in (self._listener, self._parent, self._woken, self._wakeup, *clients):
            connection.close()
        return _Child(
            module=request["argv"][0],
            argv=request["argv"],
            environment=request["environment"],
            folder=request["folder"],
            ignored=request["ignored"],
            descriptors=dict(zip(request["descriptors"], received, strict=True)),
        )

    def _disconnect(self, client: socket.socket) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(client)
        client.close()


def _apply(child: _Child, before: str) -> None:
    """Apply descriptors, environment, folder, signal handlers, import path and arguments of a child.

    Args:
        child: Module to run.
        before: Working folder of the server.
    """
    above = max(child.descriptors) + 1
    # Move all descriptors above the targets first, so that dup2 overwrites none of them.
    moved = {}
    for target, descriptor in child.descriptors.items():
        moved[target] = fcntl.fcntl(descriptor, fcntl.F_DUPFD, above)
        os.close(descriptor)
    for target, descriptor in moved.items():
        os.dup2(descriptor, target)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(child.environment)
    os.chdir(child.folder)
    ignored = child.ignored
    signal.signal(signal.SIGINT, signal.SIG_IGN if signal.SIGINT in ignored else signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if signal.SIGTERM in ignored else signal.SIG_DFL)
    tempfile.tempdir = None
    # The import path of python -m (see `qcnn.process.import_path`).
    leave_out_last(before)
    append_to_path(child.folder)
    sys.argv[:] = child.argv


if __name__ == "__main__":
    main()
