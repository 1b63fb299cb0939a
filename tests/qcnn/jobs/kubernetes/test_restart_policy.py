"""Restart policy, with sequences of observed pods."""

import dataclasses
import itertools

import pytest

from qcnn.jobs.kubernetes.restart_policy import POD_SECONDS, Action, Decision, Observation, RestartTracker, decide
from tests.qcnn.jobs.kubernetes.processes import process


def _tracker(*moments: str) -> RestartTracker:
    """Return the tracker after observations of pods; "suspended" and "given up" are states of the job."""
    number = 0
    tracker = RestartTracker("job 0")
    for moment in moments:
        if moment == "given up":
            number += 1
            tracker = tracker.job_abandoned().for_job(f"job {number}")
            continue
        parts = moment.split()
        suspended = "suspended" in parts
        tracker = tracker.observe([process(part, number) for part in parts if part != "suspended"], suspended=suspended)
    return tracker


@pytest.mark.parametrize(
    ("moments", "restarts"),
    [
        (["0a 1a"], 0),
        (["0a 1a", "0a:0 1a:0"], 0),
        # Lost and restarted.
        (["0a 1a", "0a 1a:137"], 1),
        (["0a 1a", "0a 1a:137", "0a:138 1a:137", "0b 1b"], 1),
        (["0a 1a", "0a:138 1a:137"], 1),
        (["0a 1a", "0a 1a:137", "0a:138 1b", "0b 1b", "0b 1b:137", "0b:138 1c", "0c 1c"], 2),
        (["0a 1a", "0a 1a:137", "0a:138 1b", "0b 1b", "0b:137 1b", "0c 1b:138", "0c 1c"], 2),
        # Deleted: terminating, exited, missing, restarted.
        (["0a 1a", "0a 1a!"], 0),
        (["0a 1a", "0a 1a!", "0a 1a:143!", "0a", "0a 1b"], 1),
        (["0a 1a", "0a 1a!", "0a:138 1a!"], 1),
        (["0a 1a", "0a 1a!", "0a:138 1a:143!", "0b 1b"], 1),
        (["0a 1a", "0a:138 1a", "0b 1a!", "0b 1b"], 1),
        # Missing together with its node, without termination.
        (["0a 1a", "0a", "0a 1b"], 1),
        (["0a 1a", "0a:138", "0b", "0b 1b"], 1),
        # Restarted before the other process has exited.
        (["0a 1a", "0a 1a!", "0a 1b", "0a 1b:138", "0a:138 1b:138", "0b 1c"], 1),
        (["0a 1a", "0a 1a!", "0a:138 1a!", "0b 1a!", "0b:138 1a!", "0c 1b"], 1),
        (["0a 1a", "0a 1a!", "0a:138 1a!", "0b 1a!", "0b:138 1a!"], 1),
        (["0a 1a", "0a:138 1a", "0b 1a", "0b:138 1a:137"], 1),
        # Endless failures.
        (["0a 1a", "0a 1a!", "0a 1b", "0a 1b:138", "0a 1c:138", "0a 1d:138"], 3),
        # Both processes are on one deleted node.
        (["0a 1a", "0a! 1a!", "0a:143! 1a!", "0b 1b"], 1),
        (["0a 1a", "0a! 1a!", "1a!", "0b", "0b 1b"], 1),
        # Two are deleted, one after the other.
        (["0a 1a", "0a 1a!", "0a:138 1b", "0b 1b", "0b! 1b", "0c 1b:138", "0c 1c"], 2),
        # The network fails, and both processes lose their peer.
        (["0a 1a", "0a:138 1a:138", "0b 1b"], 1),
        (["0a 1a", "0a:138 1a:138", "0b 1b", "0b:138 1b:138", "0c 1c"], 2),
        # A port is taken.
        (["0a", "0a:138", "0b:138", "0c:138"], 3),
        (["0a 1a:138", "0a 1b:138", "0a 1c:138"], 3),
        # Suspended and resumed.
        (["0a 1a", "suspended 0a 1a", "suspended 0a! 1a!", "suspended", "suspended 0b 1b", "0b 1b"], 0),
        (["0a 1a", "suspended 0a 1a", "suspended", "", "0b 1b"], 0),
        (["0a 1a", "0a:138 1a!", "suspended 0a:138! 1a!", "suspended", "0b 1b"], 0),
        (["0a 1a", "0a 1a:137", "0a 1b", "suspended 0a! 1b!", "suspended", "0b 1c"], 1),
        (["0a 1a", "suspended 0a! 1a!", "suspended", "0b 1b", "0b 1b:137"], 1),
        # The operator counts a deleted pod as failed and ends the other pods. The job is replaced.
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
        # After success, the remaining pods are terminated.
        (["0a 1a", "0a:0 1a", "0a:0 1a!", "0a:0 1a:143!"], 0),
    ],
)
def test_restarts_are_counted_from_observed_pods(moments: list[str], restarts: int) -> None:
    assert _tracker(*moments).restarts == restarts


@pytest.mark.parametrize(
    "observations",
    [
        ["0a 1a", "0a 1a!", "0a 1a:143!", "0a:138 1a:143!", "0a:138", "0b", "0b 1b"],
        ["0a 1a", "0a! 1a!", "0a:143! 1a!", "1a!", "0b 1a:143!", "0b", "0b 1b"],
    ],
)
def test_one_deletion_counts_once_for_any_observations(observations: list[str]) -> None:
    first, *middle, last = observations
    for length in range(len(middle) + 1):
        for moments in itertools.combinations(middle, length):
            assert _tracker(first, *moments, last).restarts == 1, moments


def test_failure_over_limit_returns_exceeding_loss() -> None:
    tracker = _tracker("0a 1a", "0a 1a:137", "0a:138 1b", "0b 1b", "0b:137 1b", "0b:137 1b:138")
    assert tracker.failure_over_limit(2) is None
    exceeding = [tracker.failure_over_limit(allowed) for allowed in (1, 0)]
    assert [loss.process if loss else None for loss in exceeding] == ["worker 0", "worker 1"]


def test_is_replacement_of_lost_pod() -> None:
    assert _tracker("0a 1a").is_replacement(process("1b", 0))
    assert not _tracker("0a 1a").is_replacement(process("1a", 0))
    assert not _tracker("0a 1a", "suspended 0a! 1a!").is_replacement(process("1b", 0))


# Messages of training operator 1.9.4 on a real cluster.
PODS_FAILED = "TFJob default/a is failed because 1 Worker replica(s) failed."
DEADLINE_EXCEEDED = "TFJob a has failed because it was active longer than specified deadline"
EARLY, LATE = POD_SECONDS - 1, POD_SECONDS


def _observed(*moments: str, restarts: int | None = 3, leader: str = "worker 0", **of_job: object) -> Observation:
    """Return the snapshot after observations of pods such as "0a 1a:137"."""
    seen = Observation(leader, restarts, RestartTracker("job 0"))
    for moment in moments:
        seen = seen.observe([process(word) for word in moment.split()], suspended=False)
    pods_failed = of_job.get("failure") == PODS_FAILED
    return dataclasses.replace(seen, pods_failed=pods_failed, **of_job)  # type: ignore[arg-type]


def _summary(decision: Decision) -> tuple[Action, str | None, bool]:
    return decision.action, decision.process.name if decision.process else None, decision.is_final


CONTINUE = (Action.CONTINUE, None, False)
SUCCEEDED = (Action.SUCCEEDED, None, False)
DELETED = (Action.DELETED, None, False)
REPLACE = (Action.REPLACE, None, False)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        # Before the first listing of pods, the cause of an end is unknown.
        (_observed(), CONTINUE),
        (_observed(succeeded=True), CONTINUE),
        (_observed(failure=PODS_FAILED, failed_for=LATE), CONTINUE),
        (_observed(deleted=True), DELETED),
        (_observed("0a 1a", deleted=True, succeeded=True), DELETED),
        (_observed("0a:0 1a", succeeded=True), SUCCEEDED),
        (_observed("", succeeded=True), SUCCEEDED),
        # The job runs.
        (_observed("0a 1a"), CONTINUE),
        (_observed("0a 1a", "0a:138 1a:137", "0b 1b", restarts=1), CONTINUE),
        (
            _observed("0a 1a", "0a:138 1a:137", "0b 1b", "0b 1b:137", restarts=1),
            (Action.CANCEL, "worker 1", False),
        ),
        (_observed("0a 1a", "0a 1a:137", restarts=0), (Action.CANCEL, "worker 1", False)),
        (_observed("0a 1a", "0a:138 1a:137", restarts=0), (Action.CANCEL, "worker 1", False)),
        # The pod that exceeded the limit no longer exists.
        (_observed("0a 1a", "0a 1a:137", "0a", restarts=0), (Action.CANCEL, "worker 1", False)),
        # After a permanent error, the operator ends the job.
        (_observed("0a:1 1a", restarts=0), CONTINUE),
        # Out of memory would repeat.
        (_observed("0a:137^ 1a"), (Action.CANCEL, "worker 0", True)),
        # After the leader has succeeded, failures of other processes are ignored.
        (_observed("0a:0 1a:137", restarts=0), CONTINUE),
        (_observed("0a:0 1a:137^"), CONTINUE),
        (_observed("0a 1a:0", "0a:137 1a:0", restarts=0), (Action.CANCEL, "worker 0", False)),
        (_observed("0a:137 1a:0", restarts=0, leader="worker 1"), CONTINUE),
        # Without a restart limit, the launcher only watches.
        (_observed("0a:137 1a", restarts=None), CONTINUE),
        (_observed("0a:137^ 1a", restarts=None), CONTINUE),
        # The job has failed.
        (_observed("0a 1a:1", failure=PODS_FAILED), (Action.FAILED, "worker 1", True)),
        (_observed("0a:138 1a:1", failure=PODS_FAILED), (Action.FAILED, "worker 1", True)),
        (_observed("0a:137^ 1a", failure=PODS_FAILED), (Action.FAILED, "worker 0", True)),
        (_observed("0a:1 1a", failure=PODS_FAILED, restarts=None), (Action.FAILED, "worker 0", True)),
        (_observed("0a:137 1a", failure=PODS_FAILED, restarts=None), (Action.FAILED, "worker 0", False)),
        # The failure of the job is observed before that of its pod.
        (_observed("0a 1a", failure=PODS_FAILED, failed_for=EARLY), CONTINUE),
        (_observed("0a 1a", failure=PODS_FAILED, failed_for=EARLY, restarts=None), CONTINUE),
        (_observed("0a 1a", failure=PODS_FAILED, failed_for=LATE, restarts=None), (Action.FAILED, None, True)),
        # The operator has counted a deleted pod as failed.
        (_observed("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE), REPLACE),
        (_observed("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE, restarts=1), REPLACE),
        (_observed("0a 1a", "0a:138 1a!", failure=PODS_FAILED), REPLACE),
        (_observed("0a 1a", "0a:143! 1a:143!", failure=PODS_FAILED), REPLACE),
        (
            _observed("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE, restarts=0),
            (Action.FAILED, None, False),
        ),
        (
            _observed("0a 1a:137", "0a 1b", "0a 1b!", failure=PODS_FAILED, failed_for=LATE, restarts=1),
            (
                Action.FAILED,
                None,
                False,
            ),
        ),
        # The deadline of the job is exceeded.
        (_observed("0a 1a", failure=DEADLINE_EXCEEDED, failed_for=LATE), (Action.FAILED, None, True)),
        (_observed("0a 1a:138", failure=DEADLINE_EXCEEDED), (Action.FAILED, "worker 1", False)),
    ],
)
def test_decide_returns_action_and_process(seen: Observation, expected: tuple[Action, str | None, bool]) -> None:
    assert _summary(decide(seen)) == expected


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (_observed(deleted=True), "it, or its namespace, was deleted from outside."),
        (_observed("0a:2 1a", failure=PODS_FAILED), "worker 0 ended with exit code 2"),
        (_observed("0a:137^ 1a"), "worker 0 used more memory than its limit"),
        (_observed("0a:137", "0b:137", restarts=1), "worker 0 ended with exit code 137, after 1 restarts"),
        (_observed("0a 1a", "0a 1b", restarts=0), "worker 1 was lost, after 0 restarts"),
        (_observed("0a", failure=DEADLINE_EXCEEDED, failed_for=LATE), DEADLINE_EXCEEDED),
        (
            _observed("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE, restarts=0),
            f"processes were lost, after 0 restarts: {PODS_FAILED}",
        ),
        (_observed("0a 1a!", failure=PODS_FAILED, failed_for=LATE), "was given up for a process that was lost."),
    ],
)
def test_decide_returns_reason(seen: Observation, reason: str) -> None:
    assert decide(seen).reason == reason


def test_replacing_job_inherits_restarts() -> None:
    decision = decide(_observed("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE))
    assert decision.tracker
    assert decision.tracker.restarts == 1
    replaced = Observation("worker 0", 1, decision.tracker.for_job("job 1"), processes=[], known={})
    again = replaced.observe([process("0c:137", job=1)], suspended=False)
    assert _summary(decide(replaced)) == CONTINUE
    assert _summary(decide(again)) == (Action.CANCEL, "worker 0", False)
