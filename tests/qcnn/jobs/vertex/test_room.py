"""How long machines are waited for."""

import datetime

import pytest

from qcnn.jobs.vertex.attempts import Attempt
from qcnn.jobs.vertex.room import Room
from qcnn.trainer.errors import ConfigError


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _job(state: str) -> Attempt:
    return Attempt("jobs/1", datetime.datetime.now(datetime.timezone.utc), state)


def test_time_without_machines_counts_from_the_first_that_was_missing() -> None:
    clock = _Clock()
    room = Room(60, "custom job", clock)
    room.missing("no quota", "run-1")
    clock.now = 30
    room.see(_job("QUEUED"))
    clock.now = 59
    room.see(_job("PENDING"))
    clock.now = 60
    with pytest.raises(ConfigError, match=r"^custom job: is PENDING for 60 s; .* Given: 1$"):
        room.see(_job("PENDING"))
    with pytest.raises(ConfigError, match=r"^custom job: no machines for 60 s \(no quota\) Given: run-1$"):
        room.missing("no quota", "run-1")


def test_a_job_that_ran_has_its_time_anew() -> None:
    clock = _Clock()
    room = Room(60, "custom job", clock)
    room.see(_job("PENDING"))
    clock.now = 50
    room.see(_job("RUNNING"))
    clock.now = 100
    room.see(_job("QUEUED"))
    clock.now = 159
    room.see(_job("QUEUED"))
