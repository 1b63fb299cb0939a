"""Events of a worker as lines of JSON."""

import io
import json
import os
from typing import Any

import pytest

from qcnn.trainer.events import ignore, stop_requests, to_pipe
from tests.forks import run


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


def test_stop_requests_reads_one_answer_for_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("continue\nstop\n[]\n"))
    sent: list[dict[str, Any]] = []
    should_stop = stop_requests(lambda kind, **values: sent.append({"event": kind, **values}))
    assert [should_stop(1), should_stop(2)] == [False, True]
    assert sent == [{"event": "epoch_end", "epoch": 1}, {"event": "epoch_end", "epoch": 2}]


def test_stop_requests_without_parent_exits() -> None:
    program = "from qcnn.trainer.events import ignore, stop_requests; stop_requests(ignore)(1)"
    done = run("-c", program)
    assert (done.returncode, done.stderr) == (
        138,
        "the parent process has ended; training resumes from the last checkpoint\n",
    )
