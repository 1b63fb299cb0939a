"""How long machines are waited for."""

import datetime

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.vertex.attempts import Attempt
from qcnn.jobs.vertex.client import LogEntry
from qcnn.jobs.vertex.job_watcher import CapacityTimeout, LogPosition, text


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _job(state: str) -> Attempt:
    return Attempt("jobs/1", datetime.datetime.now(datetime.timezone.utc), state)


def test_time_without_machines_counts_from_the_first_that_was_missing() -> None:
    clock = _Clock()
    room = CapacityTimeout(60, "custom job", clock)
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
    room = CapacityTimeout(60, "custom job", clock)
    room.see(_job("PENDING"))
    clock.now = 50
    room.see(_job("RUNNING"))
    clock.now = 100
    room.see(_job("QUEUED"))
    clock.now = 159
    room.see(_job("QUEUED"))


_BEGIN = datetime.datetime(2026, 11, 22, tzinfo=datetime.timezone.utc)


def _entry(name: str, second: float) -> LogEntry:
    return LogEntry(insert_id=name, log_name="l", timestamp=_BEGIN + datetime.timedelta(seconds=second))


def _new(cursor: LogPosition, *entries: LogEntry) -> list[str]:
    return [entry.insert_id for entry in cursor.new(entries)]


def test_each_entry_is_new_once_even_if_it_comes_late() -> None:
    cursor = LogPosition(_BEGIN)
    assert _new(cursor, _entry("a", 1), _entry("c", 3)) == ["a", "c"]
    assert _new(cursor, _entry("a", 1), _entry("b", 2), _entry("c", 3)) == ["b"]
    assert _new(cursor, _entry("a", 1), _entry("b", 2), _entry("c", 3)) == []


def test_entries_of_the_same_moment_are_told_apart() -> None:
    cursor = LogPosition(_BEGIN)
    assert _new(cursor, _entry("a", 1)) == ["a"]
    assert _new(cursor, _entry("a", 1), _entry("b", 1)) == ["b"]


def test_only_the_last_minutes_are_read_again() -> None:
    cursor = LogPosition(_BEGIN)
    assert cursor.since == _BEGIN
    _new(cursor, _entry("a", 1))
    assert cursor.since == _BEGIN
    _new(cursor, _entry("b", 1000))
    assert cursor.since == _BEGIN + datetime.timedelta(seconds=880)
    assert _new(cursor, _entry("c", 900), _entry("b", 1000)) == ["c"]


@pytest.mark.parametrize(
    ("entry", "printed"),
    [
        (LogEntry(text_payload="a line"), "a line"),
        (LogEntry(json_payload={"message": "a line", "levelname": "INFO"}), "a line"),
        (LogEntry(json_payload={"message": "failed", "exception": "Traceback:\nA"}), "failed\nTraceback:\nA"),
        (LogEntry(json_payload={"loss": 0.5}), '{"loss": 0.5}'),
    ],
)
def test_what_was_printed_is_found_where_the_agent_puts_it(entry: LogEntry, printed: str) -> None:
    assert text(entry) == printed
