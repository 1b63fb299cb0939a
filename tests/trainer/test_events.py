"""Events of a worker as lines of JSON."""

import json
import os

from qcnn.trainer.events import ignore, to_pipe


def test_to_pipe_writes_events_and_heartbeats() -> None:
    reading, writing = os.pipe()
    # The descriptors must remain open, because a thread writes until this process ends.
    listener = to_pipe(writing)
    listener("epoch", epoch=3, val_loss=0.25)
    with os.fdopen(os.dup(reading)) as lines:
        events = [json.loads(next(lines)) for _ in range(2)]
    assert sorted(events, key=lambda event: str(event["event"])) == [
        {"event": "alive"},
        {"event": "epoch", "epoch": 3, "val_loss": 0.25},
    ]


def test_ignore_accepts_events() -> None:
    ignore("epoch", epoch=3)
