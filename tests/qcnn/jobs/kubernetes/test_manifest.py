"""Labels, annotations and conditions of objects."""

import re
from typing import Any

import pytest

from qcnn.jobs.job import JobIdentity, run_label
from qcnn.jobs.kubernetes.manifest import annotations, condition, is_suspended, labels, run_of

# apimachinery, validation.IsValidLabelValue.
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
# Names whose labels would be equal without a hash.
SIMILAR_NAMES = [
    ("量子", "卷积"),
    ("exp_1", "exp.1", "EXP 1", "exp-1", "exp1_"),
    ("run-" * 40 + "a", "run-" * 40 + "b"),
    ("!", "?"),
]


@pytest.mark.parametrize("runs", SIMILAR_NAMES, ids=lambda runs: runs[0][:10])
def test_run_labels_of_similar_names_are_distinct(runs: tuple[str, ...]) -> None:
    found = [run_label(run) for run in runs]
    assert len(set(found)) == len(runs)
    assert all(LABEL.fullmatch(label) for label in found)
    for run in runs:
        assert run_of({"annotations": annotations(JobIdentity(run, "train"))}) == run


def test_run_label_starts_with_slug_of_name() -> None:
    assert re.fullmatch(r"exp-1-[0-9a-f]{16}", labels(JobIdentity("Exp 1", "train"))["app.kubernetes.io/instance"])


def test_run_of_without_annotation_is_none() -> None:
    assert run_of({"name": "a"}) == run_of({"annotations": {"other": "b"}}) is None


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
def test_condition_returns_message_if_true(job: dict[str, Any], expected: str | None) -> None:
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
def test_is_suspended_reads_job_and_tfjob(spec: dict[str, Any], suspended: bool) -> None:
    assert is_suspended({"spec": spec}) is suspended
