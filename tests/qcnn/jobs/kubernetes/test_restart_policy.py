"""How often a training was started again, by what was seen of its pods."""

import dataclasses
import itertools

import pytest

from qcnn.jobs.kubernetes.restart_policy import POD_SECONDS, Action, Decision, Observation, RestartTracker, decide
from tests.qcnn.jobs.kubernetes.processes import process


def _seen(*moments: str) -> RestartTracker:
    """Return what is known after the pods were looked at; "suspended" and "given up" are said of the job."""
    number = 0
    tracker = RestartTracker("job 0")
    for moment in moments:
        if moment == "given up":
            number += 1
            tracker = tracker.job_abandoned().for_job(f"job {number}")
            continue
        words = moment.split()
        suspended = "suspended" in words
        tracker = tracker.observe([process(word, number) for word in words if word != "suspended"], suspended=suspended)
    return tracker


@pytest.mark.parametrize(
    ("moments", "restarts"),
    [
        (["0a 1a"], 0),
        (["0a 1a", "0a:0 1a:0"], 0),
        # Lost, and back.
        (["0a 1a", "0a 1a:137"], 1),
        (["0a 1a", "0a 1a:137", "0a:138 1a:137", "0b 1b"], 1),
        (["0a 1a", "0a:138 1a:137"], 1),
        (["0a 1a", "0a 1a:137", "0a:138 1b", "0b 1b", "0b 1b:137", "0b:138 1c", "0c 1c"], 2),
        (["0a 1a", "0a 1a:137", "0a:138 1b", "0b 1b", "0b:137 1b", "0c 1b:138", "0c 1c"], 2),
        # Deleted: told to end, ended, gone, back.
        (["0a 1a", "0a 1a!"], 0),
        (["0a 1a", "0a 1a!", "0a 1a:143!", "0a", "0a 1b"], 1),
        (["0a 1a", "0a 1a!", "0a:138 1a!"], 1),
        (["0a 1a", "0a 1a!", "0a:138 1a:143!", "0b 1b"], 1),
        (["0a 1a", "0a:138 1a", "0b 1a!", "0b 1b"], 1),
        # Gone with its node: nobody told it to end.
        (["0a 1a", "0a", "0a 1b"], 1),
        (["0a 1a", "0a:138", "0b", "0b 1b"], 1),
        # Back before the other has noticed; it meets that one.
        (["0a 1a", "0a 1a!", "0a 1b", "0a 1b:138", "0a:138 1b:138", "0b 1c"], 1),
        (["0a 1a", "0a 1a!", "0a:138 1a!", "0b 1a!", "0b:138 1a!", "0c 1b"], 1),
        (["0a 1a", "0a 1a!", "0a:138 1a!", "0b 1a!", "0b:138 1a!"], 1),
        (["0a 1a", "0a:138 1a", "0b 1a", "0b:138 1a:137"], 1),
        # For ever.
        (["0a 1a", "0a 1a!", "0a 1b", "0a 1b:138", "0a 1c:138", "0a 1d:138"], 3),
        # One node takes both along.
        (["0a 1a", "0a! 1a!", "0a:143! 1a!", "0b 1b"], 1),
        (["0a 1a", "0a! 1a!", "1a!", "0b", "0b 1b"], 1),
        # Two are deleted, one after the other.
        (["0a 1a", "0a 1a!", "0a:138 1b", "0b 1b", "0b! 1b", "0c 1b:138", "0c 1c"], 2),
        # The network between them breaks, and no process is at fault.
        (["0a 1a", "0a:138 1a:138", "0b 1b"], 1),
        (["0a 1a", "0a:138 1a:138", "0b 1b", "0b:138 1b:138", "0c 1c"], 2),
        # A port is taken.
        (["0a", "0a:138", "0b:138", "0c:138"], 3),
        (["0a 1a:138", "0a 1b:138", "0a 1c:138"], 3),
        # Held back, and let go on.
        (["0a 1a", "suspended 0a 1a", "suspended 0a! 1a!", "suspended", "suspended 0b 1b", "0b 1b"], 0),
        (["0a 1a", "suspended 0a 1a", "suspended", "", "0b 1b"], 0),
        (["0a 1a", "0a:138 1a!", "suspended 0a:138! 1a!", "suspended", "0b 1b"], 0),
        (["0a 1a", "0a 1a:137", "0a 1b", "suspended 0a! 1b!", "suspended", "0b 1c"], 1),
        (["0a 1a", "suspended 0a! 1a!", "suspended", "0b 1b", "0b 1b:137"], 1),
        # The operator takes the deleted pod for one that has failed, ends the others, and is given the job anew.
        (["0a 1a", "0a 1a!", "given up"], 1),
        (["0a 1a", "0a 1a!", "0a! 1a!", "0a:143! 1a:143!", "given up", "0b 1b"], 1),
        (["0a 1a", "0a! 1a!", "given up", "0b 1b"], 1),
        (["0a 1a", "0a:138 1a!", "given up", "0b 1b"], 1),
        (["0a 1a", "0a 1a!", "0a 1b", "0a:138 1b", "0b 1b", "0b 1b!", "0b! 1b!", "given up", "0c 1c"], 2),
        (["0a 1a", "0a 1a!", "0a! 1a!", "given up", "0b 1b", "0b 1b:137", "0b:138 1c"], 2),
        (
            [
                "0a 1a 2a",
                "0a 1a:137 2a",
                "0a:138 1b 2a",
                "0b 1b 2a!",
                "0b! 1b! 2a!",
                "given up",
                "0c 1c 2b",
                "0c 1c:137 2b",
            ],
            2,
        ),
        (["given up", "0a 1a"], 1),
        (["0a 1a", "given up", "0b 1b", "given up"], 2),
        # All was done: who is left is told to end.
        (["0a 1a", "0a:0 1a", "0a:0 1a!", "0a:0 1a:143!"], 0),
    ],
)
def test_restarts_are_counted_from_observed_pods(moments: list[str], restarts: int) -> None:
    assert _seen(*moments).restarts == restarts


@pytest.mark.parametrize(
    "story",
    [
        ["0a 1a", "0a 1a!", "0a 1a:143!", "0a:138 1a:143!", "0a:138", "0b", "0b 1b"],
        ["0a 1a", "0a! 1a!", "0a:143! 1a!", "1a!", "0b 1a:143!", "0b", "0b 1b"],
    ],
)
def test_one_deletion_counts_once_for_any_observations(story: list[str]) -> None:
    first, *middle, last = story
    for length in range(len(middle) + 1):
        for moments in itertools.combinations(middle, length):
            assert _seen(first, *moments, last).restarts == 1, moments


def test_failure_over_limit_returns_exceeding_loss() -> None:
    tracker = _seen("0a 1a", "0a 1a:137", "0a:138 1b", "0b 1b", "0b:137 1b", "0b:137 1b:138")
    assert tracker.failure_over_limit(2) is None
    blamed = [tracker.failure_over_limit(allowed) for allowed in (1, 0)]
    assert [loss.process if loss else None for loss in blamed] == ["worker 0", "worker 1"]


def test_is_replacement_of_lost_pod() -> None:
    assert _seen("0a 1a").is_replacement(process("1b", 0))
    assert not _seen("0a 1a").is_replacement(process("1a", 0))
    assert not _seen("0a 1a", "suspended 0a! 1a!").is_replacement(process("1b", 0))


# In the operator's own words (1.9.4, seen on a real cluster).
PODS_FAILED = "TFJob default/a is failed because 1 Worker replica(s) failed."
TIME_IS_UP = "TFJob a has failed because it was active longer than specified deadline"
EARLY, LATE = POD_SECONDS - 1, POD_SECONDS


def _seen_of_verdict(
    *moments: str, restarts: int | None = 3, leader: str = "worker 0", **of_job: object
) -> Observation:
    """Return what is known after the pods were looked at, each time as in "0a 1a:137"."""
    seen = Observation(leader, restarts, RestartTracker("job 0"))
    for moment in moments:
        seen = seen.observe([process(word) for word in moment.split()], suspended=False)
    return dataclasses.replace(seen, **of_job)  # type: ignore[arg-type]


def _summary(verdict: Decision) -> tuple[Action, str | None, bool]:
    return verdict.action, verdict.process.name if verdict.process else None, verdict.is_final


CONTINUE = (Action.CONTINUE, None, False)
SUCCEEDED = (Action.SUCCEEDED, None, False)
DELETED = (Action.DELETED, None, False)
REPLACE = (Action.REPLACE, None, False)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        # Until pods were looked for, nobody knows whose fault an end is.
        (_seen_of_verdict(), CONTINUE),
        (_seen_of_verdict(succeeded=True), CONTINUE),
        (_seen_of_verdict(failure=PODS_FAILED, failed_for=LATE), CONTINUE),
        (_seen_of_verdict(deleted=True), DELETED),
        (_seen_of_verdict("0a 1a", deleted=True, succeeded=True), DELETED),
        (_seen_of_verdict("0a:0 1a", succeeded=True), SUCCEEDED),
        (_seen_of_verdict("", succeeded=True), SUCCEEDED),
        # It runs.
        (_seen_of_verdict("0a 1a"), CONTINUE),
        (_seen_of_verdict("0a 1a", "0a:138 1a:137", "0b 1b", restarts=1), CONTINUE),
        (
            _seen_of_verdict("0a 1a", "0a:138 1a:137", "0b 1b", "0b 1b:137", restarts=1),
            (Action.CANCEL, "worker 1", False),
        ),
        (_seen_of_verdict("0a 1a", "0a 1a:137", restarts=0), (Action.CANCEL, "worker 1", False)),
        (_seen_of_verdict("0a 1a", "0a:138 1a:137", restarts=0), (Action.CANCEL, "worker 1", False)),
        # The pod that was one too many is gone.
        (_seen_of_verdict("0a 1a", "0a 1a:137", "0a", restarts=0), (Action.CANCEL, "worker 1", False)),
        # Its own fault ends the job without us, by the operator.
        (_seen_of_verdict("0a:1 1a", restarts=0), CONTINUE),
        # Who needed too much memory would again.
        (_seen_of_verdict("0a:137^ 1a"), (Action.CANCEL, "worker 0", True)),
        # All is done but for those who only helped.
        (_seen_of_verdict("0a:0 1a:137", restarts=0), CONTINUE),
        (_seen_of_verdict("0a:0 1a:137^"), CONTINUE),
        (_seen_of_verdict("0a 1a:0", "0a:137 1a:0", restarts=0), (Action.CANCEL, "worker 0", False)),
        (_seen_of_verdict("0a:137 1a:0", restarts=0, leader="worker 1"), CONTINUE),
        # Who only looks on does nothing.
        (_seen_of_verdict("0a:137 1a", restarts=None), CONTINUE),
        (_seen_of_verdict("0a:137^ 1a", restarts=None), CONTINUE),
        # It has failed.
        (_seen_of_verdict("0a 1a:1", failure=PODS_FAILED), (Action.FAILED, "worker 1", True)),
        (_seen_of_verdict("0a:138 1a:1", failure=PODS_FAILED), (Action.FAILED, "worker 1", True)),
        (_seen_of_verdict("0a:137^ 1a", failure=PODS_FAILED), (Action.FAILED, "worker 0", True)),
        (_seen_of_verdict("0a:1 1a", failure=PODS_FAILED, restarts=None), (Action.FAILED, "worker 0", True)),
        (_seen_of_verdict("0a:137 1a", failure=PODS_FAILED, restarts=None), (Action.FAILED, "worker 0", False)),
        # The news of the job came before that of its pods.
        (_seen_of_verdict("0a 1a", failure=PODS_FAILED, failed_for=EARLY), CONTINUE),
        (_seen_of_verdict("0a 1a", failure=PODS_FAILED, failed_for=EARLY, restarts=None), CONTINUE),
        (_seen_of_verdict("0a 1a", failure=PODS_FAILED, failed_for=LATE, restarts=None), (Action.FAILED, None, True)),
        # The operator took a pod that was deleted for one that has failed.
        (_seen_of_verdict("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE), REPLACE),
        (_seen_of_verdict("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE, restarts=1), REPLACE),
        (_seen_of_verdict("0a 1a", "0a:138 1a!", failure=PODS_FAILED), REPLACE),
        (_seen_of_verdict("0a 1a", "0a:143! 1a:143!", failure=PODS_FAILED), REPLACE),
        (
            _seen_of_verdict("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE, restarts=0),
            (Action.FAILED, None, False),
        ),
        (
            _seen_of_verdict("0a 1a:137", "0a 1b", "0a 1b!", failure=PODS_FAILED, failed_for=LATE, restarts=1),
            (
                Action.FAILED,
                None,
                False,
            ),
        ),
        # Its time is up.
        (_seen_of_verdict("0a 1a", failure=TIME_IS_UP, failed_for=LATE), (Action.FAILED, None, True)),
        (_seen_of_verdict("0a 1a:138", failure=TIME_IS_UP), (Action.FAILED, "worker 1", False)),
    ],
)
def test_decide_returns_action_and_process(seen: Observation, expected: tuple[Action, str | None, bool]) -> None:
    assert _summary(decide(seen)) == expected


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (_seen_of_verdict(deleted=True), "it, or its namespace, was deleted from outside."),
        (_seen_of_verdict("0a:2 1a", failure=PODS_FAILED), "worker 0 ended with exit code 2"),
        (_seen_of_verdict("0a:137^ 1a"), "worker 0 used more memory than its limit"),
        (_seen_of_verdict("0a:137", "0b:137", restarts=1), "worker 0 ended with exit code 137, after 1 restarts"),
        (_seen_of_verdict("0a 1a", "0a 1b", restarts=0), "worker 1 was lost, after 0 restarts"),
        (_seen_of_verdict("0a", failure=TIME_IS_UP, failed_for=LATE), TIME_IS_UP),
        (
            _seen_of_verdict("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE, restarts=0),
            f"processes were lost, after 0 restarts: {PODS_FAILED}",
        ),
        (_seen_of_verdict("0a 1a!", failure=PODS_FAILED, failed_for=LATE), "was given up for a process that was lost."),
    ],
)
def test_decide_returns_reason(seen: Observation, reason: str) -> None:
    assert decide(seen).reason == reason


def test_replacing_job_inherits_restarts() -> None:
    verdict = decide(_seen_of_verdict("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE))
    assert verdict.tracker
    assert verdict.tracker.restarts == 1
    replaced = Observation("worker 0", 1, verdict.tracker.for_job("job 1"), processes=[], known={})
    again = replaced.observe([process("0c:137", job=1)], suspended=False)
    assert _summary(decide(replaced)) == CONTINUE
    assert _summary(decide(again)) == (Action.CANCEL, "worker 0", False)
