"""State of a job after the exit of a replica."""

import pytest

from tests.vertex.fake_service.training.decision import Action, ReplicaExit, decide

_CHIEF = {"replica": "workerpool0-0", "preempted": False, "spot": False, "restarts_job": False, "may_retry": True}


@pytest.mark.parametrize(
    ("exit_fields", "action", "message"),
    [
        ({"code": 0}, Action.SUCCEEDED, ""),
        ({"code": 0, "replica": "workerpool1-0"}, Action.CONTINUE, ""),
        (
            {"code": 1},
            Action.FAILED,
            "The replica workerpool0-0 exited with a non-zero status of 1. ",
        ),
        ({"code": 138}, Action.FAILED, "non-zero status of 138"),
        ({"code": 137}, Action.FAILED, "ran out of memory and exited with a non-zero status of 137."),
        ({"code": 139}, Action.RESTART_JOB, ""),
        ({"code": 134, "restarts": 2}, Action.RESTART_JOB, ""),
        ({"code": 134, "restarts": 3}, Action.FAILED, "non-zero status of 134"),
        ({"code": 139, "may_retry": False}, Action.FAILED, "non-zero status of 139"),
        ({"code": 137, "preempted": True}, Action.RESTART_REPLICA, ""),
        ({"code": 137, "preempted": True, "restarts_job": True}, Action.RESTART_JOB, ""),
        ({"code": 137, "preempted": True, "spot": True, "restarts": 5}, Action.RESTART_JOB, ""),
        ({"code": 137, "preempted": True, "spot": True, "restarts": 6}, Action.FAILED, "insufficient in region: here"),
        ({"code": 137, "preempted": True, "spot": True, "may_retry": False}, Action.FAILED, "insufficient in region"),
    ],
)
def test_decide_after_replica_exit(exit_fields: dict[str, object], action: Action, message: str) -> None:
    ended = ReplicaExit(**{**_CHIEF, "restarts": 0, **exit_fields})  # type: ignore[arg-type]
    decision = decide(ended, job_id="1", project="p", location="here")
    assert decision.action is action
    assert message in decision.message
    assert bool(decision.code) is (action is Action.FAILED)
