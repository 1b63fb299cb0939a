"""What jobs say of themselves and of the processes that they failed for."""

import dataclasses
import datetime

import pytest

from qcnn.jobs.vertex.attempts import (
    Attempt,
    FailureType,
    NextAction,
    RecoveryPlan,
    ReplicaExit,
    fault,
    last_fault,
    losses,
    next_action,
    process_name,
    root_cause_replica,
)


@pytest.mark.parametrize(
    ("replica", "name"),
    [
        ("workerpool0-0", "chief 0"),
        ("workerpool1-12", "worker 12"),
        ("workerpool2-1", "ps 1"),
        ("workerpool3-0", "evaluator 0"),
        ("service", "service"),
        ("workerpool7-0", "workerpool7-0"),
    ],
)
def test_replicas_have_the_names_of_their_roles(replica: str, name: str) -> None:
    assert process_name(replica) == name


@pytest.mark.parametrize(
    ("message", "ended"),
    [
        (
            "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: Error. To find out more",
            ReplicaExit("chief 0", 1, out_of_memory=False),
        ),
        (
            "The replica workerpool1-2 ran out of memory and exited with a non-zero status of 137.",
            ReplicaExit("worker 2", 137, out_of_memory=True),
        ),
        (
            "The replica workerpool1-0 ran out-of-memory and exited with a non-zero status of 9(SIGKILL). ",
            ReplicaExit("worker 0", 137, out_of_memory=True),
        ),
        (
            "The replica workerpool1-0 exited with a non-zero status of 15(SIGTERM).",
            ReplicaExit("worker 0", 143, out_of_memory=False),
        ),
        (
            "The replica workerpool0-0 exited with a non-zero status of 138. "
            "The replica workerpool1-0 exited with a non-zero status of 2.",
            ReplicaExit("worker 0", 2, out_of_memory=False),
        ),
        ("Internal error occurred for the current attempt.", None),
        ("", None),
    ],
)
def test_the_process_to_blame_is_read_from_the_error(message: str, ended: ReplicaExit | None) -> None:
    assert root_cause_replica(message) == ended


_BEGIN = datetime.datetime(2026, 11, 22, tzinfo=datetime.timezone.utc)
_EXITED = "The replica workerpool1-0 exited with a non-zero status of {}. Termination reason: Error."
_NO_MACHINES = "Resources are insufficient in region: us-central1. Try a different region."


def _attempt(name: str, state: str, minute: int = 0, **given: object) -> Attempt:
    return dataclasses.replace(
        Attempt(name, _BEGIN + datetime.timedelta(minutes=minute), state),
        **given,  # type: ignore[arg-type]  # a table's own values
    )


A, B = _attempt("a", "RUNNING", 1), _attempt("b", "QUEUED", 2)
AT_ONCE = dataclasses.replace(B, created=A.created)
DONE, LOST = _attempt("d", "SUCCEEDED", 3), _attempt("l", "FAILED", 0, message=_EXITED.format(138))


@pytest.mark.parametrize(
    ("attempts", "plan"),
    [
        ([], RecoveryPlan(NextAction.CREATE)),
        ([A], RecoveryPlan(NextAction.FOLLOW, A)),
        ([B, A], RecoveryPlan(NextAction.FOLLOW, A, (B,))),
        (
            [dataclasses.replace(B, created=A.created), A],
            RecoveryPlan(NextAction.FOLLOW, A, (dataclasses.replace(B, created=A.created),)),
        ),
        ([LOST, A], RecoveryPlan(NextAction.FOLLOW, A)),
        ([DONE], RecoveryPlan(NextAction.RETURN, DONE)),
        ([A, DONE], RecoveryPlan(NextAction.RETURN, DONE, (A,))),
        ([LOST], RecoveryPlan(NextAction.CREATE)),
        ([LOST, _attempt("c", "CANCELLED")], RecoveryPlan(NextAction.CREATE)),
        ([_attempt("c", "CANCELLING")], RecoveryPlan(NextAction.WAIT, _attempt("c", "CANCELLING"))),
        ([_attempt("c", "CANCELLING"), A], RecoveryPlan(NextAction.FOLLOW, A)),
        ([_attempt("u", "UPDATING")], RecoveryPlan(NextAction.FOLLOW, _attempt("u", "UPDATING"))),
    ],
)
def test_one_job_lives_and_it_is_the_oldest(attempts: list[Attempt], plan: RecoveryPlan) -> None:
    assert next_action(attempts) == plan


@pytest.mark.parametrize(
    ("state", "code", "message", "started", "why"),
    [
        ("SUCCEEDED", 0, "", True, None),
        ("CANCELLED", 1, "CANCELED", True, FailureType.CANCELLED),
        ("FAILED", 3, _EXITED.format(1), True, FailureType.OWN),
        ("FAILED", 3, _EXITED.format(127), True, FailureType.OWN),
        ("FAILED", 3, _EXITED.format(138), True, FailureType.LOST),
        ("FAILED", 3, _EXITED.format(143), True, FailureType.LOST),
        (
            "FAILED",
            3,
            "The replica workerpool0-0 ran out of memory and exited with a non-zero status of 137.",
            True,
            FailureType.OWN,
        ),
        ("FAILED", 8, _NO_MACHINES, False, FailureType.NO_ROOM),
        ("FAILED", 8, _NO_MACHINES, True, FailureType.LOST),
        ("FAILED", 0, _NO_MACHINES, False, FailureType.NO_ROOM),
        ("FAILED", 8, "The following quota metrics exceed quota limits: a", False, FailureType.NO_ROOM),
        ("FAILED", 13, "Internal error occurred for the current attempt.", True, FailureType.LOST),
        ("FAILED", 14, "", True, FailureType.LOST),
        ("FAILED", 0, "The machine was preempted.", True, FailureType.LOST),
        ("FAILED", 3, "The image cannot be pulled.", False, FailureType.OWN),
        ("FAILED", 4, "The job has exceeded its maximum running time.", True, FailureType.OWN),
        ("EXPIRED", 0, "", False, FailureType.OWN),
        ("PARTIALLY_SUCCEEDED", 0, "", True, FailureType.OWN),
    ],
)
def test_whose_fault_the_end_of_a_job_is(
    state: str, code: int, message: str, started: bool, why: FailureType | None
) -> None:
    assert fault(_attempt("a", state, code=code, message=message, started=started)) is why


def test_losses_are_counted_over_all_jobs_of_a_training() -> None:
    own = _attempt("o", "FAILED", 5, message=_EXITED.format(1))
    assert losses([LOST, A, DONE, own, dataclasses.replace(LOST, name="m")]) == 2


def test_the_newest_end_counts() -> None:
    own = _attempt("o", "FAILED", 5, message=_EXITED.format(1))
    assert last_fault([own, LOST, A]) == (own, FailureType.OWN)
    assert last_fault([A, DONE]) is None
