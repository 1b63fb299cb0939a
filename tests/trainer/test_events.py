"""Events that a worker sends, each one line of JSON."""

import json
import os

from qcnn.trainer.events import ignore, to_pipe


def test_an_event_is_one_line_of_json_and_the_process_says_that_it_lives() -> None:
    reading, writing = os.pipe()
    # The descriptors stay open: a thread writes until this process ends.
    listener = to_pipe(writing)
    listener("epoch", epoch=3, val_loss=0.25)
    with os.fdopen(os.dup(reading)) as lines:
        events = [json.loads(next(lines)) for _ in range(2)]
    assert sorted(events, key=lambda event: str(event["event"])) == [
        {"event": "alive"},
        {"event": "epoch", "epoch": 3, "val_loss": 0.25},
    ]


def test_nobody_has_to_listen() -> None:
    ignore("epoch", epoch=3)
