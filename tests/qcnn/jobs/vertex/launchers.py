"""Launcher processes for tests, whose training jobs run small Python programs instead of workers."""

import contextlib
import json
import queue
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import pytest

from qcnn.jobs.local.fork_client import ChildProcess
from tests.forks import started
from tests.vertex.fake_service.vertex import Vertex

_ROOT = Path(__file__).parents[4]


class Launcher:
    """Running launcher. `lines` contains the lines that were read from stdout and stderr so far."""

    def __init__(self, process: ChildProcess, output: TextIO) -> None:
        self._process, self._output = process, output
        self.lines: list[str] = []
        self._unread: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def until_line(self, text: str) -> str:
        """Wait for a line that contains a text and return it."""
        for line in self.lines:
            if text in line:
                return line
        while (new := self._next()) is not None:
            if text in new:
                return new
        raise AssertionError(f"{text!r} was not printed: {self.lines}")

    def end(self) -> int:
        """Wait for the launcher to exit and return its exit code, -N after signal N."""
        while self._next() is not None:
            pass
        return self._process.wait()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    def terminate(self) -> None:
        """Send SIGTERM, like a cancelled pipeline."""
        self._process.terminate()

    def _next(self) -> str | None:
        line = self._unread.get()
        if line is not None:
            self.lines.append(line)
        else:
            self._unread.put(None)
        return line

    def _read(self) -> None:
        for line in self._output:
            self._unread.put(line.rstrip("\n"))
        self._unread.put(None)


@contextlib.contextmanager
def _at_root() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(_ROOT)
        yield


@contextlib.contextmanager
def launched(
    server: Vertex, program: str, environment: Mapping[str, str] | None = None, **given: Any
) -> Iterator[Launcher]:
    """Context manager that starts the launcher of a training job, and kills it at the end if it still runs.

    Args:
        server: Vertex AI server.
        program: Python program of all processes, or with `trials` of all trials.
        environment: Additional environment variables of the launcher.
        **given: Fields of the JSON argument that differ from the defaults below.
    """
    defaults = {"workers": 1, "restarts": 1, "pod": {}, "run": "run-1", "trials": 0}
    defaults |= {"pending_seconds": 60, "patience": 60}
    place = {"project": server.project, "location": server.location, "bucket": server.bucket}
    argument = json.dumps({**defaults, **place, "program": program, **given})
    command = ("-m", "tests.qcnn.jobs.vertex.launcher", argument)
    with (
        _at_root(),
        started(*command, environment={**server.process_environment(), **(environment or {})}) as (process, output),
    ):
        launcher = Launcher(process, output)
        try:
            yield launcher
        finally:
            process.kill()
            launcher.end()
