"""Processes that this process keeps for its next runs: a fork server with loaded libraries, and idle processes.

They end with this process, also if it is killed.
"""

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from qcnn.jobs.local.fork_client import ForkServer
from qcnn.jobs.local.fork_protocol import VARIABLE
from qcnn.jobs.local.runner import ProcessPool
from qcnn.process.library_loading import own_environment

# Sessions of this process, and objects of the process that it was forked from.
_sessions: list["Session"] = []
_inherited: list[object] = []


class Session:
    """Fork server and idle training processes for the runs of one process. All methods can be called by any thread.

    At most the processes of one run are idle, so that their memory is that of a study.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        """Create a session without processes.

        Args:
            modules: Names of the modules that the fork server loads.
        """
        self._modules = modules
        self._lock = threading.RLock()
        self._server: ForkServer | None = None
        self._idle: tuple[object, ProcessPool] | None = None
        _sessions.append(self)

    def start(self) -> str | None:
        """Start the fork server unless it runs, and return its address, or None if another process shares its server.

        Raises:
            ConfigError: If a limit of this process is too small for the modules.
        """
        if VARIABLE in os.environ:
            return None
        with self._lock:
            if self._server and self._server.has_exited:
                self.close()
            if not self._server:
                self._server = ForkServer(self._modules)
            return self._server.address

    @contextlib.contextmanager
    def processes(self, *, is_reusable: bool) -> Iterator[ProcessPool]:
        """Context manager that yields processes, idle ones if they have the same folder and environment.

        Args:
            is_reusable: Whether the processes may train other runs.
        """
        kind = (Path.cwd(), own_environment())
        # Ends idle processes whose fork server has exited.
        self.start()
        pool = self._take(kind) if is_reusable else None
        if pool is None:
            pool = ProcessPool(self.start, lives_on=is_reusable)
        with contextlib.ExitStack() as stack:
            stack.callback(pool.close)
            yield pool
            if is_reusable and self._keep(kind, pool):
                stack.pop_all()

    def _take(self, kind: object) -> ProcessPool | None:
        """Return the idle processes of a kind, and end idle ones of another kind."""
        with self._lock:
            idle, self._idle = self._idle, None
        if idle and idle[0] != kind:
            idle[1].close()
            return None
        return idle[1] if idle else None

    def _keep(self, kind: object, pool: ProcessPool) -> bool:
        """Keep processes for the next run unless others are idle, and return whether they are kept."""
        with self._lock:
            if self._idle is not None:
                return False
            self._idle = (kind, pool)
            return True

    def close(self) -> None:
        """End all idle processes and the fork server."""
        with self._lock:
            if self._idle:
                self._idle[1].close()
            if self._server:
                self._server.close()
            self._idle = self._server = None

    def close_loading(self) -> None:
        """End the fork server if it still loads its modules, so that no thread waits for it."""
        with self._lock:
            if self._server and not self._server.is_ready:
                self.close()

    def forget(self) -> None:
        """Forget all processes, which belong to the process that this one was forked from."""
        if self._server:
            self._server.forget()
        # Their finalizers would report processes that still run.
        _inherited.extend((self._server, self._idle))
        self._lock = threading.RLock()
        self._idle = self._server = None


def _forget_all() -> None:
    for session in _sessions:
        session.forget()


def _close_all() -> None:
    for session in _sessions:
        session.close()


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_close_all)
