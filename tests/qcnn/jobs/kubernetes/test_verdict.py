"""What is done about a followed job, by what was seen of it."""

import dataclasses

import pytest

from qcnn.jobs.kubernetes.lives import Lives
from qcnn.jobs.kubernetes.verdict import POD_SECONDS, Action, Seen, Verdict, judge
from tests.qcnn.jobs.kubernetes.processes import process

# In the operator's own words (1.9.4, seen on a real cluster).
PODS_FAILED = "TFJob default/a is failed because 1 Worker replica(s) failed."
TIME_IS_UP = "TFJob a has failed because it was active longer than specified deadline"
EARLY, LATE = POD_SECONDS - 1, POD_SECONDS


def _seen(*moments: str, restarts: int | None = 3, leader: str = "worker 0", **of_job: object) -> Seen:
    """Return what is known after the pods were looked at, each time as in "0a 1a:137"."""
    seen = Seen(leader, restarts, Lives("job 0"))
    for moment in moments:
        seen = seen.see([process(word) for word in moment.split()], suspended=False)
    return dataclasses.replace(seen, **of_job)  # type: ignore[arg-type]


def _summary(verdict: Verdict) -> tuple[Action, str | None, bool]:
    return verdict.action, verdict.process.name if verdict.process else None, verdict.is_final


GO_ON = (Action.GO_ON, None, False)
SUCCEEDED = (Action.SUCCEEDED, None, False)
DELETED = (Action.DELETED, None, False)
START_AGAIN = (Action.START_AGAIN, None, False)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        # Until pods were looked for, nobody knows whose fault an end is.
        (_seen(), GO_ON),
        (_seen(succeeded=True), GO_ON),
        (_seen(failure=PODS_FAILED, failed_for=LATE), GO_ON),
        (_seen(deleted=True), DELETED),
        (_seen("0a 1a", deleted=True, succeeded=True), DELETED),
        (_seen("0a:0 1a", succeeded=True), SUCCEEDED),
        (_seen("", succeeded=True), SUCCEEDED),
        # It runs.
        (_seen("0a 1a"), GO_ON),
        (_seen("0a 1a", "0a:138 1a:137", "0b 1b", restarts=1), GO_ON),
        (_seen("0a 1a", "0a:138 1a:137", "0b 1b", "0b 1b:137", restarts=1), (Action.GIVE_UP, "worker 1", False)),
        (_seen("0a 1a", "0a 1a:137", restarts=0), (Action.GIVE_UP, "worker 1", False)),
        (_seen("0a 1a", "0a:138 1a:137", restarts=0), (Action.GIVE_UP, "worker 1", False)),
        # The pod that was one too many is gone.
        (_seen("0a 1a", "0a 1a:137", "0a", restarts=0), (Action.GIVE_UP, "worker 1", False)),
        # Its own fault ends the job without us, by the operator.
        (_seen("0a:1 1a", restarts=0), GO_ON),
        # Who needed too much memory would again.
        (_seen("0a:137^ 1a"), (Action.GIVE_UP, "worker 0", True)),
        # All is done but for those who only helped.
        (_seen("0a:0 1a:137", restarts=0), GO_ON),
        (_seen("0a:0 1a:137^"), GO_ON),
        (_seen("0a 1a:0", "0a:137 1a:0", restarts=0), (Action.GIVE_UP, "worker 0", False)),
        (_seen("0a:137 1a:0", restarts=0, leader="worker 1"), GO_ON),
        # Who only looks on does nothing.
        (_seen("0a:137 1a", restarts=None), GO_ON),
        (_seen("0a:137^ 1a", restarts=None), GO_ON),
        # It has failed.
        (_seen("0a 1a:1", failure=PODS_FAILED), (Action.FAILED, "worker 1", True)),
        (_seen("0a:138 1a:1", failure=PODS_FAILED), (Action.FAILED, "worker 1", True)),
        (_seen("0a:137^ 1a", failure=PODS_FAILED), (Action.FAILED, "worker 0", True)),
        (_seen("0a:1 1a", failure=PODS_FAILED, restarts=None), (Action.FAILED, "worker 0", True)),
        (_seen("0a:137 1a", failure=PODS_FAILED, restarts=None), (Action.FAILED, "worker 0", False)),
        # The news of the job came before that of its pods.
        (_seen("0a 1a", failure=PODS_FAILED, failed_for=EARLY), GO_ON),
        (_seen("0a 1a", failure=PODS_FAILED, failed_for=EARLY, restarts=None), GO_ON),
        (_seen("0a 1a", failure=PODS_FAILED, failed_for=LATE, restarts=None), (Action.FAILED, None, True)),
        # The operator took a pod that was deleted for one that has failed.
        (_seen("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE), START_AGAIN),
        (_seen("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE, restarts=1), START_AGAIN),
        (_seen("0a 1a", "0a:138 1a!", failure=PODS_FAILED), START_AGAIN),
        (_seen("0a 1a", "0a:143! 1a:143!", failure=PODS_FAILED), START_AGAIN),
        (_seen("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE, restarts=0), (Action.FAILED, None, False)),
        (
            _seen("0a 1a:137", "0a 1b", "0a 1b!", failure=PODS_FAILED, failed_for=LATE, restarts=1),
            (
                Action.FAILED,
                None,
                False,
            ),
        ),
        # Its time is up.
        (_seen("0a 1a", failure=TIME_IS_UP, failed_for=LATE), (Action.FAILED, None, True)),
        (_seen("0a 1a:138", failure=TIME_IS_UP), (Action.FAILED, "worker 1", False)),
    ],
)
def test_a_verdict_follows_from_what_was_seen(seen: Seen, expected: tuple[Action, str | None, bool]) -> None:
    assert _summary(judge(seen)) == expected


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (_seen(deleted=True), "it, or its namespace, was deleted while it was followed."),
        (_seen("0a:2 1a", failure=PODS_FAILED), "worker 0 ended with exit code 2"),
        (_seen("0a:137^ 1a"), "worker 0 used more memory than its limit"),
        (_seen("0a:137", "0b:137", restarts=1), "worker 0 ended with exit code 137, after 1 restarts"),
        (_seen("0a 1a", "0a 1b", restarts=0), "worker 1 was lost, after 0 restarts"),
        (_seen("0a", failure=TIME_IS_UP, failed_for=LATE), TIME_IS_UP),
        (
            _seen("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE, restarts=0),
            f"processes were lost, after 0 restarts: {PODS_FAILED}",
        ),
        (_seen("0a 1a!", failure=PODS_FAILED, failed_for=LATE), "was given up for a process that was lost."),
    ],
)
def test_a_verdict_says_why(seen: Seen, reason: str) -> None:
    assert judge(seen).reason == reason


def test_a_job_that_replaces_another_has_lost_what_that_one_had() -> None:
    verdict = judge(_seen("0a 1a", "0a 1a!", failure=PODS_FAILED, failed_for=LATE))
    assert verdict.lives
    assert verdict.lives.restarts == 1
    replaced = Seen("worker 0", 1, verdict.lives.moved_to("job 1"), processes=[], known={})
    again = replaced.see([process("0c:137", job=1)], suspended=False)
    assert _summary(judge(replaced)) == GO_ON
    assert _summary(judge(again)) == (Action.GIVE_UP, "worker 0", False)
