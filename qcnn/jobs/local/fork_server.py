"""A process that has loaded modules, and forks others that need not load them again: see `fork_request`.

It is started as python -m qcnn.jobs.local.fork_server DESCRIPTOR MODULE ...; the descriptor is that of the listening
socket, stdin the socket of whoever started it. It ends when that process does, and its children with it.
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

from qcnn.import_path import leave_out_last, look_last
from qcnn.jobs.local.fork_protocol import READY, REFUSED, STATUS, receive_request
from qcnn.operating_system import descriptors, end_with_parent, is_same_user

# What is read when a library is loaded: where a process asks for other values, it is not forked from here.
_READ_AT_LOAD = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "TF_", "XLA_", "CUDA_", "OMP_", "KMP_", "MKL_", "OPENBLAS_")
# The cluster, which each process reads by itself.
_READ_LATER = "TF_CONFIG"


@dataclasses.dataclass(frozen=True)
class _Child:
    """A process to become: a module with its arguments, and what surrounds it."""

    module: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    ignored: Sequence[int]
    # Where each descriptor that came with the request belongs.
    descriptors: Mapping[int, int]


def main() -> None:
    """Load what the arguments name and serve until whoever started this is gone; in a child, become what was asked."""
    end_with_parent(os.getppid())
    folder = str(Path.cwd())
    environment = dict(os.environ)
    listener = socket.socket(fileno=int(sys.argv[1]))
    starter = socket.socket(fileno=os.dup(0))
    before = descriptors()
    _load(sys.argv[2:])
    server = _Server(listener, starter, environment, descriptors() - before)
    # Where the starter is gone, that is found next.
    with contextlib.suppress(OSError):
        starter.sendall(READY)
    child = server.serve()
    end_with_parent(server.pid)
    _become(child, folder)
    runpy.run_module(child.module, run_name="__main__", alter_sys=True)


def _load(modules: Sequence[str]) -> None:
    # Not before it is known what surrounds this process: it sets variables for the libraries.
    from qcnn.startup import loading

    with loading():
        for module in modules:
            importlib.import_module(module)


class _Server:
    """Forks children on request, passes signals on to them and reports how they ended."""

    def __init__(
        self, listener: socket.socket, starter: socket.socket, environment: Mapping[str, str], opened: Set[int]
    ) -> None:
        self.pid = os.getpid()
        self._opened = opened
        self._environment = environment
        self._listener, self._starter = listener, starter
        self._askers: dict[int, socket.socket] = {}
        self._waiting: set[socket.socket] = set()
        self._woken, self._wakeup = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for source in (listener, starter, self._woken):
            self._selector.register(source, selectors.EVENT_READ)

    def serve(self) -> _Child:
        """Serve for ever; return in a child, what it is to become."""
        self._woken.setblocking(False)
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        # Only one that is handled is written to the descriptor.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._starter:
                    # Nobody is left to serve; the children end with this process.
                    os._exit(0)
                elif key.fileobj is self._woken:
                    self._wake()
                elif key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket) and (child := self._hear(key.fileobj)):
                    return child

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
        for pid in list(self._askers):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                asker = self._askers.pop(pid)
                with contextlib.suppress(OSError):
                    asker.sendall(struct.pack(STATUS, os.waitstatus_to_exitcode(status)))
                self._forget(asker)

    def _accept(self) -> None:
        asker, _ = self._listener.accept()
        if not is_same_user(asker):
            asker.close()
            return
        self._waiting.add(asker)
        self._selector.register(asker, selectors.EVENT_READ)

    def _hear(self, asker: socket.socket) -> _Child | None:
        """Take a request, a signal for a child, or that an asker is gone; return in a child, what it is to become."""
        if asker in self._waiting:
            return self._request(asker)
        child = next((pid for pid, other in self._askers.items() if other is asker), None)
        if child is None:
            return None
        try:
            signals = asker.recv(4096)
        except OSError:
            signals = b""
        for number in signals or (signal.SIGKILL,):
            os.kill(child, number)
        if not signals:
            self._selector.unregister(asker)
        return None

    def _request(self, asker: socket.socket) -> _Child | None:
        self._waiting.discard(asker)
        try:
            request, received = receive_request(asker)
        except (OSError, EOFError):
            self._forget(asker)
            return None
        pid = self._fork() if self._can_fork(request) else REFUSED
        if pid == 0:
            return self._child(request, received)
        for descriptor in received:
            os.close(descriptor)
        with contextlib.suppress(OSError):
            asker.sendall(struct.pack(STATUS, pid))
        if pid == REFUSED:
            self._forget(asker)
        else:
            self._askers[pid] = asker
        return None

    @staticmethod
    def _fork() -> int:
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of threads: those of the numerical libraries are made for it.
                warnings.simplefilter("ignore", DeprecationWarning)
                return os.fork()
        except OSError:
            return REFUSED

    def _can_fork(self, request: Mapping[str, Any]) -> bool:
        if not self._opened.isdisjoint(request["descriptors"]):
            return False
        wanted, loaded = (
            {name: value for name, value in each.items() if name.startswith(_READ_AT_LOAD) and name != _READ_LATER}
            for each in (request["environment"], self._environment)
        )
        return wanted == loaded

    def _child(self, request: Mapping[str, Any], received: Sequence[int]) -> _Child:
        """Let go of what is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for other in (self._listener, self._starter, self._woken, self._wakeup, *self._waiting, *self._askers.values()):
            other.close()
        return _Child(
            module=request["argv"][0],
            argv=request["argv"],
            environment=request["environment"],
            folder=request["folder"],
            ignored=request["ignored"],
            descriptors=dict(zip(request["descriptors"], received, strict=True)),
        )

    def _forget(self, asker: socket.socket) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(asker)
        asker.close()


def _become(child: _Child, before: str) -> None:
    """Put this process, so far in the folder `before`, where one that was started for this child would be."""
    above = max(child.descriptors) + 1
    # All out of the way first, so that none takes another's place.
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
    # As python -m would have had it (`qcnn.import_path`).
    leave_out_last(before)
    look_last(child.folder)
    sys.argv[:] = child.argv


if __name__ == "__main__":
    main()
