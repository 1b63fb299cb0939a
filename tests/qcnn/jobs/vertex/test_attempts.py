"""Attempts of a training job: failure types, next actions and root causes."""

import dataclasses
import datetime

import pytest

from qcnn.jobs.vertex.attempts import (
    Attempt,
    FailureType,
    NextAction,
    RecoveryPlan,
    ReplicaExit,
    count_retryable_failures,
    failure_type,
    last_failure,
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
def test_process_name_contains_role_and_index(replica: str, name: str) -> None:
    assert process_name(replica) == name


@pytest.mark.parametrize(
    ("message", "replica"),
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
def test_root_cause_replica_is_parsed_from_message(message: str, replica: ReplicaExit | None) -> None:
    assert root_cause_replica(message) == replica


_BEGIN = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)
_EXITED = "The replica workerpool1-0 exited with a non-zero status of {}. Termination reason: Error."
_NO_MACHINES = "Resources are insufficient in region: us-central1. Try a different region."


def _attempt(name: str, state: str, minute: int = 0, **given: object) -> Attempt:
    return dataclasses.replace(
        Attempt(name, _BEGIN + datetime.timedelta(minutes=minute), state),
        **given,  # type: ignore[arg-type]  # values of the test table
    )


A, B = _attempt("a", "RUNNING", 1), _attempt("b", "QUEUED", 2)
DONE, RETRYABLE = _attempt("d", "SUCCEEDED", 3), _attempt("l", "FAILED", 0, message=_EXITED.format(138))


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
        ([RETRYABLE, A], RecoveryPlan(NextAction.FOLLOW, A)),
        ([DONE], RecoveryPlan(NextAction.RETURN, DONE)),
        ([A, DONE], RecoveryPlan(NextAction.RETURN, DONE, (A,))),
        ([RETRYABLE], RecoveryPlan(NextAction.CREATE)),
        ([RETRYABLE, _attempt("c", "CANCELLED")], RecoveryPlan(NextAction.CREATE)),
        ([_attempt("c", "CANCELLING")], RecoveryPlan(NextAction.WAIT, _attempt("c", "CANCELLING"))),
        ([_attempt("c", "CANCELLING"), A], RecoveryPlan(NextAction.FOLLOW, A)),
        ([_attempt("u", "UPDATING")], RecoveryPlan(NextAction.FOLLOW, _attempt("u", "UPDATING"))),
    ],
)
def test_next_action_keeps_oldest_active_job(attempts: list[Attempt], plan: RecoveryPlan) -> None:
    assert next_action(attempts) == plan


@pytest.mark.parametrize(
    ("state", "code", "message", "started", "expected"),
    [
        ("SUCCEEDED", 0, "", True, None),
        ("CANCELLED", 1, "CANCELED", True, FailureType.CANCELLED),
        ("FAILED", 3, _EXITED.format(1), True, FailureType.PERMANENT),
        ("FAILED", 3, _EXITED.format(127), True, FailureType.PERMANENT),
        ("FAILED", 3, _EXITED.format(138), True, FailureType.RETRYABLE),
        ("FAILED", 3, _EXITED.format(143), True, FailureType.RETRYABLE),
        (
            "FAILED",
            3,
            "The replica workerpool0-0 ran out of memory and exited with a non-zero status of 137.",
            True,
            FailureType.PERMANENT,
        ),
        ("FAILED", 8, _NO_MACHINES, False, FailureType.NO_CAPACITY),
        ("FAILED", 8, _NO_MACHINES, True, FailureType.RETRYABLE),
        ("FAILED", 0, _NO_MACHINES, False, FailureType.NO_CAPACITY),
        ("FAILED", 8, "The following quota metrics exceed quota limits: a", False, FailureType.NO_CAPACITY),
        ("FAILED", 13, "Internal error occurred for the current attempt.", True, FailureType.RETRYABLE),
        ("FAILED", 14, "", True, FailureType.RETRYABLE),
        ("FAILED", 0, "The machine was preempted.", True, FailureType.RETRYABLE),
        ("FAILED", 3, "The image cannot be pulled.", False, FailureType.PERMANENT),
        ("FAILED", 4, "The job has exceeded its maximum running time.", True, FailureType.PERMANENT),
        ("EXPIRED", 0, "", False, FailureType.PERMANENT),
        ("PARTIALLY_SUCCEEDED", 0, "", True, FailureType.PERMANENT),
    ],
)
def test_failure_type_follows_from_state_code_and_message(
    state: str, code: int, message: str, started: bool, expected: FailureType | None
) -> None:
    assert failure_type(_attempt("a", state, code=code, message=message, started=started)) is expected


def test_count_retryable_failures_covers_all_jobs() -> None:
    permanent = _attempt("o", "FAILED", 5, message=_EXITED.format(1))
    attempts = [RETRYABLE, A, DONE, permanent, dataclasses.replace(RETRYABLE, name="m")]
    assert count_retryable_failures(attempts) == 2


def test_last_failure_returns_newest_failed_job() -> None:
    permanent = _attempt("o", "FAILED", 5, message=_EXITED.format(1))
    assert last_failure([permanent, RETRYABLE, A]) == (permanent, FailureType.PERMANENT)
    assert last_failure([A, DONE]) is None
