"""Local processes of a training job: output, heartbeats and termination."""

import collections
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

from qcnn.errors import QcnnError
from qcnn.jobs.job import LAST_LINES
from qcnn.jobs.local.fork_client import start_process
from qcnn.monitoring import logs
from qcnn.process.error_transfer import ERROR, from_values

# Seconds between SIGTERM and SIGKILL.
GRACE = 3.0

# Called with the name of a process and an event of it. The event has its type under "event", and values.
EventHandler = Callable[[str, Mapping[str, Any]], None]
# Called with each line of output.
LineHandler = Callable[[str], None]
# Called with the number of an epoch after which a process waits. Returns whether training stops after it, or None if
# this is not yet known.
StopHandler = Callable[[int], bool | None]
# Returns whether another thread, which has received a signal, ends the work of this one.
IsInterrupted = Callable[[], bool]


def never_interrupted() -> bool:
    """Return False, because no other thread ends this work."""
    return False


def print_line(line: str) -> None:
    """Print a line of output on the current stdout."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def stop(processes: Sequence["LocalProcess"]) -> None:
    """Terminate all processes, and kill those that still run after `GRACE` seconds."""
    for process in processes:
        process.terminate()
    end = time.monotonic() + GRACE
    for process in processes:
        process.close(end)


class LocalProcess:
    """Process of a training job, whose output is forwarded line by line with its name as prefix.

    With `is_reusable`, a process that has finished reads the arguments of another training run from stdin.
    """

    def __init__(
        self,
        name: str,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        on_event: EventHandler,
        output: LineHandler,
        server: str | None,
        *,
        is_reusable: bool = False,
        confirms: bool = False,
    ) -> None:
        """Start a process.

        Args:
            name: Name in messages and events.
            argv: Command line.
            environment: Complete environment.
            on_event: Handler of its events.
            output: Handler of its output lines.
            server: Address of the fork server, see `start_process`.
            is_reusable: Whether the process can start further training runs.
            confirms: Whether the process waits for `answer` after each epoch.
        """
        self.name = name
        # Error with which the process ends, if it has sent one.
        self.error: QcnnError | None = None
        # Epoch after which the process waits for an answer, or None.
        self.ended_epoch: int | None = None
        self._command, self._server = (argv, environment, is_reusable, confirms), server
        self._on_event, self._output = on_event, output
        self._handlers = {"output": self._forward_line, "events": self._handle_event}
        self.last_line = ""
        self.last_lines: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
        # Whether no heartbeat was received yet.
        self.is_starting = True
        self._incomplete = {"output": b"", "events": b""}
        self._finished = False
        self._input: io.FileIO | None = None
        with contextlib.ExitStack() as child_descriptors:
            self._sources, write_ends = {}, {}
            for kind in self._handlers:
                read_end, write_ends[kind] = os.pipe()
                child_descriptors.callback(os.close, write_ends[kind])
                self._sources[kind] = os.fdopen(read_end, "rb", buffering=0)
                os.set_blocking(read_end, False)
            printed, events = write_ends["output"], write_ends["events"]
            stdin = os.open(os.devnull, os.O_RDONLY)
            if is_reusable or confirms:
                os.close(stdin)
                stdin, written = os.pipe()
                self._input = io.FileIO(written, "w")
            child_descriptors.callback(os.close, stdin)
            self._process = start_process(
                (*argv, "--events", str(events), *_flags(is_reusable=is_reusable, confirms=confirms)),
                environment,
                stdin=stdin,
                stdout=printed,
                stderr=printed,
                pass_fds=(events,),
                address=server,
            )
        # After the start, which may wait until the fork server has loaded the libraries.
        self.last_heartbeat = time.monotonic()

    def proceed(
        self, argv: tuple[str, ...], on_event: EventHandler, output: LineHandler, *, confirms: bool = False
    ) -> None:
        """Start another training run in this process, which must be idle.

        Args:
            argv: Arguments of the program, without python -m MODULE.
            on_event: Event handler of the training run.
            output: Handler of its output lines.
            confirms: Whether the process waits for `answer` after each epoch.
        """
        self._on_event, self._output, self._finished = on_event, output, False
        self.last_line, self.last_heartbeat = "", time.monotonic()
        self.last_lines.clear()
        self._send(json.dumps([*argv, *_flags(is_reusable=True, confirms=confirms)]))

    def answer(self, *, stops: bool) -> None:
        """Continue or stop training after `ended_epoch`."""
        self.ended_epoch = None
        self._send("stop" if stops else "continue")

    @property
    def exit_code(self) -> int | None:
        """The exit code (negative signal number after a signal), or None while the process runs.

        A reusable process that has finished has exit code 0.
        """
        code = self._process.poll()
        return 0 if code is None and self._finished else code

    @property
    def is_idle(self) -> bool:
        """Whether the process has finished and can start another training run."""
        return self._finished and self._process.poll() is None

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Register the output and event pipes.

        The data of each selector key is a function that reads the pipe.
        """
        for kind, source in self._sources.items():
            selector.register(source, selectors.EVENT_READ, lambda kind=kind: self._read(kind))

    def unwatch(self, selector: selectors.BaseSelector) -> None:
        """Unregister the output and event pipes."""
        for source in self._sources.values():
            # A pipe that was read to its end is already unregistered.
            with contextlib.suppress(KeyError):
                selector.unregister(source)

    def restart(self) -> "LocalProcess":
        """Start another process with the same command, and return it."""
        argv, environment, is_reusable, confirms = self._command
        return LocalProcess(
            self.name,
            argv,
            environment,
            self._on_event,
            self._output,
            self._server,
            is_reusable=is_reusable,
            confirms=confirms,
        )

    def seconds_since_heartbeat(self) -> float:
        """Return the seconds since the last heartbeat, or since the start of the process."""
        return time.monotonic() - self.last_heartbeat

    def close(self, end: float) -> None:
        """Wait until `end` (time.monotonic) for the process to exit, then kill it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, end - time.monotonic()))
        self._process.kill()
        self._process.wait()
        for source in (*self._sources.values(), self._input):
            if source:
                source.close()

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def drain(self) -> None:
        """Forward the remaining output and events of a process that has exited."""
        for kind in self._sources:
            self._read(kind)

    def _send(self, line: str) -> None:
        assert self._input
        # If the process has exited, its exit code shows it.
        with contextlib.suppress(BrokenPipeError):
            self._input.write(f"{line}\n".encode())

    def _read(self, kind: str) -> bool:
        """Handle the lines that can be read now, and return whether the pipe is still open."""
        with contextlib.suppress(BlockingIOError, ValueError):
            while True:
                chunk = os.read(self._sources[kind].fileno(), 65536)
                if not chunk:
                    return False
                *lines, self._incomplete[kind] = (self._incomplete[kind] + chunk).split(b"\n")
                for line in lines:
                    self._handlers[kind](line)
        return True

    def _forward_line(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        self.last_line = logs.lines_to_text([text])[-1] or self.last_line
        self.last_lines.append(text)
        for reformatted in logs.reformat_line(text, self.name):
            self._output(reformatted)

    def _handle_event(self, line: bytes) -> None:
        self.last_heartbeat, self.is_starting = time.monotonic(), False
        event = json.loads(line)
        if event["event"] == "finished":
            self._finished = True
        elif event["event"] == "epoch_end":
            self.ended_epoch = event["epoch"]
        elif event["event"] == ERROR:
            self.error = from_values(event)
        elif event["event"] != "alive":
            self._on_event(self.name, event)


def _flags(*, is_reusable: bool, confirms: bool) -> list[str]:
    """Return the flags of a training run that determine what the process reads from stdin."""
    return [*(["--further"] if is_reusable else []), *(["--confirm-epochs"] if confirms else [])]
