"""One replica of a custom job: a local process, whose lines go into the log."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.vertex.server.orphans import GUARD

# The root of the checkout is what the image's working folder is.
_ROOT = Path(__file__).parents[4]
# What a shell of a tester may have set; a container knows nothing of it.
_FORGOTTEN = ("TF_CONFIG", "CLUSTER_SPEC", "KUBECONFIG", "PYTEST_CURRENT_TEST")


def process_environment(added: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that stands for a container: this Python first, then what is added."""
    inherited = {name: value for name, value in os.environ.items() if name not in _FORGOTTEN}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**inherited, "PATH": path, "PYTHONPATH": str(_ROOT), "PYTHONUNBUFFERED": "1", **added}


class Replica:
    """A running replica; `on_exit` is called with it and its exit code, once all its lines have been passed on."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        environment: Mapping[str, str],
        on_line: Callable[[str, str], None],
        on_exit: Callable[["Replica", int], None],
    ) -> None:
        self.name = name
        self.preempted = False
        self._process = subprocess.Popen(
            argv,
            env=environment,
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        GUARD.watch(self._process.pid)
        self._on_line, self._on_exit = on_line, on_exit
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def terminate(self) -> None:
        """Ask the process to end; what it has started is its own affair, as in a container."""
        if self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        """End the process, and all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, seconds: float) -> bool:
        """Wait for the end; return whether it has come."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _follow(self) -> None:
        assert self._process.stdout
        with self._process.stdout:
            for line in self._process.stdout:
                self._on_line(self.name, line.rstrip("\n"))
        code = self._process.wait()
        GUARD.forget(self._process.pid)
        # What ends by a signal has this exit code in a container.
        self._on_exit(self, code if code >= 0 else 128 - code)


def end(replicas: Sequence[Replica], grace: float) -> None:
    """End replicas: ask them to, wait, kill those that are left."""
    for replica in replicas:
        replica.terminate()
    for replica in replicas:
        replica.wait(grace)
    for replica in replicas:
        replica.kill()
    for replica in replicas:
        replica.wait(grace)
