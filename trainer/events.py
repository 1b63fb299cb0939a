"""What a worker tells the process that started it, and how it notices that this process is gone."""

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from qcnn.startup import RETRYABLE, end_now

# Seconds between two signs of life.
ALIVE_INTERVAL = 1.0

# The kind of event of a process that has ended a training well, and lives on for the next.
FINISHED = "finished"

# Takes the kind of an event and its values, all JSON.
Listener = Callable[..., None]


def ignore(kind: str, **values: Any) -> None:
    """Listen to nothing."""


def to_pipe(descriptor: int) -> Listener:
    """Return a listener that writes each event as one line of JSON, and send a sign of life every second.

    Once nobody reads any more, the process that started this one is gone, and this one ends.
    """

    def write(kind: str, **values: Any) -> None:
        try:
            os.write(descriptor, (json.dumps({"event": kind, **values}) + "\n").encode())
        except BrokenPipeError:
            end_now("the process that started this one is gone; the last checkpoint counts", RETRYABLE)

    def live() -> None:
        while True:
            write("alive")
            time.sleep(ALIVE_INTERVAL)

    threading.Thread(target=live, name="alive", daemon=True).start()
    return write
