"""Replica of a custom job: a local process whose output is logged."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from qcnn.jobs.local.fork_client import ChildProcess, start_process
from qcnn.jobs.local.fork_protocol import VARIABLE
from tests.vertex.fake_service.orphans import GUARD

# Root of the checkout, the working directory in the image.
_ROOT = Path(__file__).parents[4]
# Variables of the test process that a container does not have.
_REMOVED = ("TF_CONFIG", "CLUSTER_SPEC", "KUBECONFIG", "PYTEST_CURRENT_TEST", VARIABLE)
# Variables that Python reads at its start.
READ_AT_START = {"PYTHONPATH": str(_ROOT), "PYTHONUNBUFFERED": "1"}


def process_environment(added: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process in place of a container, with the running Python first in PATH."""
    inherited = {name: value for name, value in os.environ.items() if name not in _REMOVED}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**inherited, "PATH": path, **READ_AT_START, **added}


class Replica:
    """Running replica. Calls `on_line` for each line, and then `on_exit` with the replica and its exit code."""

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
        self._forked = VARIABLE in os.environ and argv[1:2] == ["-m"]
        self._process, self._output = (_fork if self._forked else _start)(argv, environment)
        self._on_line, self._on_exit = on_line, on_exit
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def terminate(self) -> None:
        """Send SIGTERM to the process but not to its children, as in a container."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill the process and its children."""
        if self._forked:
            # Its children are processes of qcnn, which end with it.
            self._process.kill()
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the process, and return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _follow(self) -> None:
        with self._output:
            for line in self._output:
                self._on_line(self.name, line.rstrip("\n"))
        code = self._process.wait()
        if not self._forked:
            GUARD.forget(self._process.pid)
        # Containers report a signal as exit code 128 + signal.
        self._on_exit(self, code if code >= 0 else 128 - code)


def _start(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[ChildProcess, IO[str]]:
    """Start a process that leads a process group, and return it with its output."""
    process = subprocess.Popen(
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
    GUARD.watch(process.pid)
    assert process.stdout
    return process, process.stdout


def _fork(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[ChildProcess, IO[str]]:
    """Start a process from the fork server of the tests, which has read the variables of Python."""
    own = {name: value for name, value in environment.items() if name not in READ_AT_START}
    read = {name: os.environ[name] for name in READ_AT_START if name in os.environ}
    output, written = os.pipe()
    with os.fdopen(written, "w") as end, Path(os.devnull).open() as nothing:
        process = start_process(
            argv, {**own, **read}, stdin=nothing.fileno(), stdout=end.fileno(), stderr=end.fileno(), folder=_ROOT
        )
    return process, os.fdopen(output, errors="replace")


def terminate_all(replicas: Sequence[Replica], grace: float) -> None:
    """Terminate replicas, and kill those that run longer than `grace` seconds."""
    for replica in replicas:
        replica.terminate()
    for replica in replicas:
        replica.wait(grace)
    for replica in replicas:
        replica.kill()
    for replica in replicas:
        replica.wait(grace)
