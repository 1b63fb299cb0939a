"""Which entries of a log are new, and what was printed."""

import datetime

import pytest

from qcnn.jobs.vertex.client.library import LogEntry
from qcnn.jobs.vertex.lines import Cursor, text

_BEGIN = datetime.datetime(2026, 11, 22, tzinfo=datetime.timezone.utc)


def _entry(name: str, second: float) -> LogEntry:
    return LogEntry(insert_id=name, log_name="l", timestamp=_BEGIN + datetime.timedelta(seconds=second))


def _new(cursor: Cursor, *entries: LogEntry) -> list[str]:
    return [entry.insert_id for entry in cursor.new(entries)]


def test_each_entry_is_new_once_even_if_it_comes_late() -> None:
    cursor = Cursor(_BEGIN)
    assert _new(cursor, _entry("a", 1), _entry("c", 3)) == ["a", "c"]
    assert _new(cursor, _entry("a", 1), _entry("b", 2), _entry("c", 3)) == ["b"]
    assert _new(cursor, _entry("a", 1), _entry("b", 2), _entry("c", 3)) == []


def test_entries_of_the_same_moment_are_told_apart() -> None:
    cursor = Cursor(_BEGIN)
    assert _new(cursor, _entry("a", 1)) == ["a"]
    assert _new(cursor, _entry("a", 1), _entry("b", 1)) == ["b"]


def test_only_the_last_minutes_are_read_again() -> None:
    cursor = Cursor(_BEGIN)
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
