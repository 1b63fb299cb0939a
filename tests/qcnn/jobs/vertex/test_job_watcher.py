"""Capacity timeout and log position of the job watcher."""

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
    return Attempt("jobs/1", datetime.datetime.now(datetime.UTC), state)


def test_capacity_timeout_counts_from_first_missing_machine() -> None:
    clock = _Clock()
    capacity = CapacityTimeout(60, "custom job", clock)
    capacity.record_missing("no quota", "run-1")
    clock.now = 30
    capacity.observe(_job("QUEUED"))
    clock.now = 59
    capacity.observe(_job("PENDING"))
    clock.now = 60
    with pytest.raises(ConfigError, match=r"^custom job: is PENDING for 60 s; .* Given: 1$"):
        capacity.observe(_job("PENDING"))
    with pytest.raises(ConfigError, match=r"^custom job: no machines for 60 s \(no quota\) Given: run-1$"):
        capacity.record_missing("no quota", "run-1")


def test_capacity_timeout_running_job_resets_it() -> None:
    clock = _Clock()
    capacity = CapacityTimeout(60, "custom job", clock)
    capacity.observe(_job("PENDING"))
    clock.now = 50
    capacity.observe(_job("RUNNING"))
    clock.now = 100
    capacity.observe(_job("QUEUED"))
    clock.now = 159
    capacity.observe(_job("QUEUED"))


_BEGIN = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)


def _entry(name: str, second: float) -> LogEntry:
    return LogEntry(insert_id=name, log_name="l", timestamp=_BEGIN + datetime.timedelta(seconds=second))


def _new(position: LogPosition, *entries: LogEntry) -> list[str]:
    return [entry.insert_id for entry in position.new(entries)]


def test_log_position_returns_late_entry_once() -> None:
    position = LogPosition(_BEGIN)
    assert _new(position, _entry("a", 1), _entry("c", 3)) == ["a", "c"]
    assert _new(position, _entry("a", 1), _entry("b", 2), _entry("c", 3)) == ["b"]
    assert _new(position, _entry("a", 1), _entry("b", 2), _entry("c", 3)) == []


def test_log_position_distinguishes_entries_with_same_time() -> None:
    position = LogPosition(_BEGIN)
    assert _new(position, _entry("a", 1)) == ["a"]
    assert _new(position, _entry("a", 1), _entry("b", 1)) == ["b"]


def test_log_position_since_is_two_minutes_before_newest() -> None:
    position = LogPosition(_BEGIN)
    assert position.since == _BEGIN
    _new(position, _entry("a", 1))
    assert position.since == _BEGIN
    _new(position, _entry("b", 1000))
    assert position.since == _BEGIN + datetime.timedelta(seconds=880)
    assert _new(position, _entry("c", 900), _entry("b", 1000)) == ["c"]


@pytest.mark.parametrize(
    ("entry", "printed"),
    [
        (LogEntry(text_payload="a line"), "a line"),
        (LogEntry(json_payload={"message": "a line", "levelname": "INFO"}), "a line"),
        (LogEntry(json_payload={"message": "failed", "exception": "Traceback:\nA"}), "failed\nTraceback:\nA"),
        (LogEntry(json_payload={"loss": 0.5}), '{"loss": 0.5}'),
    ],
)
def test_text_reads_text_and_json_payloads(entry: LogEntry, printed: str) -> None:
    assert text(entry) == printed
