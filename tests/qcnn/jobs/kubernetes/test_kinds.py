"""What jobs of any kind say of themselves."""

from typing import Any

import pytest

from qcnn.jobs.kubernetes.kinds import condition, is_suspended


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({}, None),
        ({"status": {}}, None),
        ({"status": {"conditions": [{"type": "Failed", "status": "True", "message": "why"}]}}, "why"),
        ({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, "Failed"),
        ({"status": {"conditions": [{"type": "Failed", "status": "True", "message": ""}]}}, "Failed"),
        ({"status": {"conditions": [{"type": "Failed", "status": "False", "message": "why"}]}}, None),
        ({"status": {"conditions": [{"type": "Running", "status": "True", "message": "why"}]}}, None),
    ],
)
def test_a_condition_has_a_message_only_while_the_job_is_in_it(job: dict[str, Any], expected: str | None) -> None:
    assert condition(job, "Failed") == expected


@pytest.mark.parametrize(
    ("spec", "suspended"),
    [
        ({"runPolicy": {}}, False),
        ({"runPolicy": {"suspend": False}}, False),
        ({"runPolicy": {"suspend": True}}, True),
        ({"suspend": True}, True),
        ({"suspend": False}, False),
    ],
)
def test_a_job_that_a_queue_holds_back_is_suspended(spec: dict[str, Any], suspended: bool) -> None:
    assert is_suspended({"spec": spec}) is suspended
