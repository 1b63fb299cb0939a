"""Why processes do not start, and how long they are waited for; tests/cluster has real reasons."""

import dataclasses
import logging
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.kubernetes.pending import Question, Start, Waiting, question
from qcnn.jobs.kubernetes.pods import Process
from tests.qcnn.jobs.kubernetes.processes import process

JOB: dict[str, Any] = {"metadata": {"name": "a", "uid": "1-2-3"}, "spec": {}}
NAMES = ["worker 0", "worker 1"]
NO_ROOM, NO_IMAGE = "cannot be scheduled: no room", "cannot start, ErrImagePull: no image"


def _unstarted(text: str, trouble: str | None = None) -> Process:
    return dataclasses.replace(process(text), started=False, trouble=trouble)


def _seen(*processes: Process, suspended: bool = False, now: float = 10) -> Waiting:
    return Waiting(0, dict.fromkeys(NAMES)).see(NAMES, processes, suspended=suspended, now=now)


@pytest.mark.parametrize(
    ("processes", "suspended", "since", "why", "asked"),
    [
        ([], False, 0, "worker 0, worker 1", "worker 0"),
        ([process("0a")], False, 0, "worker 1", "worker 1"),
        ([process("0a"), process("1a:1")], False, None, "", None),
        ([process("0a"), _unstarted("1a")], False, 0, "worker 1", "worker 1"),
        ([process("0a"), _unstarted("1a", NO_ROOM)], False, 0, f"worker 1 {NO_ROOM}", None),
        ([_unstarted("0a", NO_ROOM), _unstarted("1a")], False, 0, f"worker 0 {NO_ROOM}", "worker 1"),
        # Who has no pod comes first.
        ([_unstarted("0a")], False, 0, "worker 0, worker 1", "worker 1"),
        # A job that is held back has no pods.
        ([], True, None, "", None),
        ([_unstarted("0a", NO_ROOM)], True, None, "", None),
    ],
)
def test_who_has_not_started_and_why_follows_from_the_pods(
    processes: list[Process], suspended: bool, since: float | None, why: str, asked: str | None
) -> None:
    waiting = _seen(*processes, suspended=suspended)
    assert (waiting.since, waiting.why(), waiting.to_ask_about()) == (since, why, asked)


def test_what_was_told_once_is_known_until_the_process_has_started() -> None:
    told = _seen(_unstarted("0a"), process("1a")).told("worker 0", NO_IMAGE)
    assert told.why() == f"worker 0 {NO_IMAGE}"
    assert told.see(NAMES, [_unstarted("0a"), process("1a")], suspended=False, now=20).why() == told.why()
    lost = told.see(NAMES, [process("0a"), _unstarted("1b")], suspended=False, now=20)
    assert (lost.why(), lost.since) == ("worker 1", 0)
    assert not told.see(NAMES, [process("0a"), process("1a")], suspended=False, now=20).troubles


def test_who_is_started_again_is_waited_for_from_then_on() -> None:
    started = _seen(process("0a"), process("1a"))
    assert started.see(NAMES, [process("0a")], suspended=False, now=500).since == 500


def test_without_a_pod_the_events_of_the_job_tell_why() -> None:
    assert question(JOB, None) == Question("1-2-3", "FailedCreate")
    assert question(JOB, None, "a-worker-1") == Question("1-2-3", "FailedCreate", "a-worker-1")
    assert question(JOB, process("0a"), "a-worker-0") == Question("0-0a", "")


class _Events:
    """Events of objects by their uid; it counts how often it was asked."""

    def __init__(self, events: dict[str, str]) -> None:
        self.events = events
        self.asked: list[str] = []

    def find(self, _: Any, fieldSelector: str) -> list[dict[str, str]]:  # noqa: N803
        uid = fieldSelector.removeprefix("involvedObject.uid=").removesuffix(",type=Warning")
        self.asked.append(uid)
        return [{"reason": "FailedCreatePod", "message": self.events[uid]}] if uid in self.events else []


class _Watched:
    """The start of a job's processes, by a clock that is set by hand."""

    def __init__(self, names: list[str] | None = None, events: dict[str, str] | None = None) -> None:
        self.now = 0.0
        self.events = _Events(events or {})
        self.start = Start(self.events, JOB, names or ["worker 0"], 600, lambda: self.now)  # type: ignore[arg-type]

    def check(self, now: float) -> None:
        self.now = now
        self.start.check()


def test_what_has_no_pod_is_waited_for_so_long() -> None:
    watched = _Watched()
    watched.start.see([], suspended=False)
    watched.check(600)
    with pytest.raises(ConfigError, match=r"^not started after 600 s: worker 0\. Given: a$"):
        watched.check(601)


def test_the_time_for_which_a_job_is_suspended_does_not_count() -> None:
    watched = _Watched()
    watched.check(500)
    watched.start.see([], suspended=True)
    watched.check(100_000)
    assert not watched.start.is_pending
    watched.start.see([], suspended=False)
    assert watched.start.is_pending
    watched.check(100_600)
    with pytest.raises(ConfigError, match=r"^not started after 600 s: "):
        watched.check(100_601)


def test_a_job_that_a_queue_holds_back_from_the_beginning_is_not_waited_for() -> None:
    held = {**JOB, "spec": {"runPolicy": {"suspend": True}}}
    start = Start(_Events({}), held, NAMES, 600, lambda: 0.0)  # type: ignore[arg-type]
    assert not start.is_pending


def test_nothing_is_asked_or_refused_once_all_have_started() -> None:
    watched = _Watched()
    watched.start.see([process("0a")], suspended=False)
    watched.check(10_000)
    assert (watched.start.is_pending, watched.events.asked) == (False, [])


def test_events_are_asked_for_every_ten_seconds_while_pods_say_nothing() -> None:
    watched = _Watched(events={"0-0a": "no account"})
    for now in (0, 9, 10, 19, 20):
        watched.start.see([_unstarted("0a")], suspended=False)
        watched.check(now)
    assert watched.events.asked == ["0-0a"] * 2
    with pytest.raises(ConfigError, match=r": worker 0 cannot start, FailedCreatePod: no account\. Given: a$"):
        watched.check(601)


def test_the_first_trouble_of_each_process_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    watched = _Watched(NAMES, {"1-2-3": "over quota"})
    with caplog.at_level(logging.WARNING, "qcnn"):
        for now, trouble in (
            (0, NO_IMAGE),
            (1, "cannot start, ImagePullBackOff: again"),
            (10, NO_IMAGE),
            (20, NO_IMAGE),
        ):
            watched.now = now
            watched.start.see([_unstarted("0a", trouble)], suspended=False)
            watched.start.check()
    expected = [f"worker 0 {NO_IMAGE}", "worker 1 cannot start, FailedCreatePod: over quota"]
    assert [record.getMessage() for record in caplog.records] == expected
