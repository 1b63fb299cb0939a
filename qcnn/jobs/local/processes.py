"""The processes of one training on this machine: their output, their signs of life, their end."""

import contextlib
import io
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from qcnn.jobs.local.fork_client import start_process
from qcnn.monitoring import logs

# A process that was asked to end is killed after this, in seconds.
GRACE = 3.0

# Called with the name of a process and an event that it sent: its kind under "event", and values.
EventHandler = Callable[[str, Mapping[str, Any]], None]


def stop(processes: Sequence["LocalProcess"]) -> None:
    """End all processes: ask them to, wait, kill those that are left."""
    for process in processes:
        process.terminate()
    end = time.monotonic() + GRACE
    for process in processes:
        process.close(end)


class LocalProcess:
    """A process of a training; its output is passed on line by line, with its name before each line.

    One that `lives_on` once it has finished takes the arguments of another training from stdin.
    """

    def __init__(
        self,
        name: str,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        on_event: EventHandler,
        *,
        lives_on: bool = False,
    ) -> None:
        self.name = name
        self._command = (argv, environment, lives_on)
        self._on_event = on_event
        self._handlers = {"output": self._pass_on, "events": self._take_event}
        self.last_line = ""
        self.last_sign_at = time.monotonic()
        self._parts = {"output": b"", "events": b""}
        self._finished = False
        self._further: io.FileIO | None = None
        with contextlib.ExitStack() as others_ends:
            self._sources, its_ends = {}, {}
            for kind in self._handlers:
                ours, its_ends[kind] = os.pipe()
                others_ends.callback(os.close, its_ends[kind])
                self._sources[kind] = os.fdopen(ours, "rb", buffering=0)
                os.set_blocking(ours, False)
            output, events = its_ends["output"], its_ends["events"]
            stdin = os.open(os.devnull, os.O_RDONLY)
            if lives_on:
                os.close(stdin)
                stdin, further = os.pipe()
                self._further = io.FileIO(further, "w")
            others_ends.callback(os.close, stdin)
            self._started = start_process(
                (*argv, "--events", str(events), *(("--further",) if lives_on else ())),
                environment,
                stdin=stdin,
                stdout=output,
                stderr=output,
                pass_fds=(events,),
            )

    def proceed(self, argv: tuple[str, ...], on_event: EventHandler) -> None:
        """Have a process that has finished and lives on run another training of its program, with these arguments."""
        assert self._further
        self._on_event, self._finished = on_event, False
        self.last_line, self.last_sign_at = "", time.monotonic()
        # One that has ended meanwhile is noticed by its exit code.
        with contextlib.suppress(BrokenPipeError):
            self._further.write(f"{json.dumps([*argv, '--further'])}\n".encode())

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, minus the signal's number where one ended it, None while it runs.

        One that has finished and lives on has the exit code 0.
        """
        code = self._started.poll()
        return 0 if code is None and self._finished else code

    @property
    def is_idle(self) -> bool:
        """Whether it has finished and could run another training."""
        return self._finished and self._started.poll() is None

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Let a selector call back when this process writes something."""
        for kind, source in self._sources.items():
            selector.register(source, selectors.EVENT_READ, lambda kind=kind: self._read(kind))

    def unwatch(self, selector: selectors.BaseSelector) -> None:
        """Let a selector no longer call back."""
        for source in self._sources.values():
            # What has been read to its end is not watched any more.
            with contextlib.suppress(KeyError):
                selector.unregister(source)

    def again(self) -> "LocalProcess":
        """Start another process as this one was started."""
        argv, environment, lives_on = self._command
        return LocalProcess(self.name, argv, environment, self._on_event, lives_on=lives_on)

    def seconds_since_heartbeat(self) -> float:
        """Return the seconds since the last sign of life."""
        return time.monotonic() - self.last_sign_at

    def close(self, end: float) -> None:
        """Wait until `end` (time.monotonic) for the process to end, then kill it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._started.wait(max(0.0, end - time.monotonic()))
        self._started.kill()
        self._started.wait()
        for source in (*self._sources.values(), self._further):
            if source:
                source.close()

    def terminate(self) -> None:
        """Ask the process to end."""
        self._started.terminate()

    def drain(self) -> None:
        """Pass on what the process wrote before it ended."""
        for kind in self._sources:
            self._read(kind)

    def _read(self, kind: str) -> bool:
        """Handle what has come; return whether more can."""
        with contextlib.suppress(BlockingIOError, ValueError):
            while True:
                chunk = os.read(self._sources[kind].fileno(), 65536)
                if not chunk:
                    return False
                *lines, self._parts[kind] = (self._parts[kind] + chunk).split(b"\n")
                for line in lines:
                    self._handlers[kind](line)
        return True

    def _pass_on(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        self.last_line = logs.lines_to_text([text])[-1] or self.last_line
        for passed_on in logs.reformat_line(text, self.name):
            sys.stdout.write(f"{passed_on}\n")
        sys.stdout.flush()

    def _take_event(self, line: bytes) -> None:
        self.last_sign_at = time.monotonic()
        event = json.loads(line)
        if event["event"] == "finished":
            self._finished = True
        elif event["event"] != "alive":
            self._on_event(self.name, event)
