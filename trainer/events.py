"""Events that a worker sends to its parent process, and exit of the worker if the parent ends."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from qcnn.process.exit_codes import RETRYABLE
from qcnn.process.standard_streams import exit_with_message

# Seconds between two heartbeats.
HEARTBEAT_SECONDS = 1.0

# Type of the event of a process that has completed a training run and waits for the next.
FINISHED = "finished"

# Type of the event of a process that waits after an epoch, and the answer of the parent process to end training.
EPOCH_END, STOP = "epoch_end", "stop"

# Callback for an event with its type and JSON values.
Listener = Callable[..., None]


def ignore(kind: str, **values: Any) -> None:
    """Ignore an event."""


def to_pipe(descriptor: int) -> Listener:
    """Return a listener that writes each event as one line of JSON, and start sending heartbeats.

    When the pipe has no reader, the parent process has ended, and this process exits.
    """

    def write(kind: str, **values: Any) -> None:
        try:
            os.write(descriptor, (json.dumps({"event": kind, **values}) + "\n").encode())
        except BrokenPipeError:
            _exit_without_parent()

    def send_heartbeats() -> None:
        while True:
            write("alive")
            time.sleep(HEARTBEAT_SECONDS)

    threading.Thread(target=send_heartbeats, name="heartbeat", daemon=True).start()
    return write


def stop_requests(send: Listener) -> Callable[[int], bool]:
    """Return a function that waits after an epoch until the parent process continues or stops training.

    The parent process answers all processes of a training job in the same way. It sends a line to stdin, which has no
    writer after the parent process has ended. This process then exits.

    Args:
        send: Listener that sends events to the parent process.
    """

    def is_stopped(epoch: int) -> bool:
        send(EPOCH_END, epoch=epoch)
        line = sys.stdin.readline()
        if not line:
            _exit_without_parent()
        return line.strip() == STOP

    return is_stopped


def _exit_without_parent() -> NoReturn:
    exit_with_message("the parent process has ended; training resumes from the last checkpoint", RETRYABLE)
