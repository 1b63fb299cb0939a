"""Launchers as processes, each of one training with small Python programs in place of workers."""

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
from tests.vertex.server.vertex import Vertex

_ROOT = Path(__file__).parents[4]


class Launcher:
    """A launcher that runs; `lines` are those that it has printed so far, on stdout or stderr."""

    def __init__(self, process: ChildProcess, output: TextIO) -> None:
        self._process, self._output = process, output
        self.lines: list[str] = []
        self._news: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def until_line(self, text: str) -> str:
        """Wait for a line that holds a text; return it."""
        for line in self.lines:
            if text in line:
                return line
        while (came := self._next()) is not None:
            if text in came:
                return came
        raise AssertionError(f"{text!r} was not printed: {self.lines}")

    def end(self) -> int:
        """Wait for its end; return its exit code, -N where a signal ended it."""
        while self._next() is not None:
            pass
        return self._process.wait()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def terminate(self) -> None:
        """Tell it to end, as a pipeline does that is cancelled."""
        self._process.terminate()

    def _next(self) -> str | None:
        line = self._news.get()
        if line is not None:
            self.lines.append(line)
        else:
            self._news.put(None)
        return line

    def _read(self) -> None:
        for line in self._output:
            self._news.put(line.rstrip("\n"))
        self._news.put(None)


@contextlib.contextmanager
def _at_root() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(_ROOT)
        yield


@contextlib.contextmanager
def launched(
    server: Vertex, program: str, environment: Mapping[str, str] | None = None, **given: Any
) -> Iterator[Launcher]:
    """Yield a launcher of a training whose processes run a program; in the end it is killed, if it still runs.

    With `trials`, it is a search of so many, which run the program.
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
