"""Whether a pod is being taken away."""

from typing import Any

import pytest

from qcnn.jobs.tfjob.eviction import is_going


@pytest.mark.parametrize(
    ("metadata", "status", "expected"),
    [
        ({}, {"phase": "Running"}, False),
        ({}, {"conditions": [{"type": "Ready", "status": "True"}]}, False),
        # Terminating a run leaves its pods.
        ({}, {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]}, False),
        ({}, {"conditions": [{"type": "DisruptionTarget", "status": "False"}]}, False),
        ({}, {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}, True),
        ({"deletionTimestamp": "2026-11-22T08:00:00Z"}, {"phase": "Running"}, True),
    ],
)
def test_a_pod_is_going_where_it_is_deleted_or_its_node_ends_it(
    metadata: dict[str, Any], status: dict[str, Any], expected: bool
) -> None:
    assert is_going({"metadata": metadata, "status": status}) is expected
