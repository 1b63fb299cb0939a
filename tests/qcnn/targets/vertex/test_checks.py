"""Checks of a project on Vertex AI, with the answers of Google's APIs as their references describe them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.vertex.location import VertexLocation
from qcnn.targets.checks import UnknownError
from qcnn.targets.vertex import checks
from tests.vertex.fake_service.vertex import Vertex

PLACE = VertexLocation("my-project", "europe-west4")
ALL_PERMISSIONS = {"permissions": list(checks._PERMISSIONS)}


def answering(answer: Mapping[str, Any]) -> checks.Send:
    return lambda url, body: answer


def limits(*buckets: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ConsumerQuotaMetric with these quota buckets (Service Usage API)."""
    return {"metric": "any", "consumerQuotaLimits": [{"unit": "1/{project}/{region}", "quotaBuckets": list(buckets)}]}


@pytest.mark.parametrize(
    ("check", "answer", "found"),
    [
        (lambda send: checks.enabled_services(send, "p"), {"state": "ENABLED"}, "are enabled"),
        (lambda send: checks.project_rights(send, "p"), ALL_PERMISSIONS, "roles/aiplatform.user"),
        (lambda send: checks.acts_as(send, "a@b.c"), {"permissions": ["iam.serviceAccounts.actAs"]}, "as a@b.c"),
        (
            lambda send: checks.processors(send, PLACE),
            limits({"effectiveLimit": "0"}, {"effectiveLimit": "42", "dimensions": {"region": "europe-west4"}}),
            "42 CPUs for training in europe-west4",
        ),
        (lambda send: checks.processors(send, PLACE), limits({"effectiveLimit": "-1"}), "unlimited CPUs"),
    ],
)
def test_ready_project_passes(check: Callable[[checks.Send], str], answer: Mapping[str, Any], found: str) -> None:
    assert found in check(answering(answer))


@pytest.mark.parametrize(
    ("check", "answer", "kind", "message"),
    [
        (
            lambda send: checks.enabled_services(send, "p"),
            {"state": "DISABLED"},
            ConfigError,
            "`gcloud services enable aiplatform.googleapis.com --project p`. Given: .* is disabled$",
        ),
        (
            lambda send: checks.project_rights(send, "p"),
            {"permissions": ALL_PERMISSIONS["permissions"][1:]},
            ConfigError,
            "must include aiplatform.customJobs.create; grant role roles/aiplatform.user. Given: p$",
        ),
        (
            lambda send: checks.acts_as(send, "a@b.c"),
            {},
            ConfigError,
            r"iam\.serviceAccountUser for it\. Given: a@b\.c",
        ),
        (
            lambda send: checks.processors(send, PLACE),
            limits({"effectiveLimit": "0", "dimensions": {"region": "europe-west4"}}, {"effectiveLimit": "9"}),
            ConfigError,
            "request aiplatform.googleapis.com/custom_model_training_cpus",
        ),
        (
            lambda send: checks.processors(send, PLACE),
            limits({"effectiveLimit": "9", "dimensions": {"region": "us-east1"}}),
            UnknownError,
            "no limit of .* is known in europe-west4",
        ),
    ],
)
def test_project_that_is_not_ready_has_reason(
    check: Callable[[checks.Send], str], answer: Mapping[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        check(answering(answer))


def test_credentials_have_kind_and_account(vertex: Vertex, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in vertex.process_environment().items():
        monkeypatch.setenv(name, value)
    assert checks.credentials().startswith("oauth2 service account, ")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(ConfigError, match=r"^credentials: log in with `gcloud .*\. Given: .*none\.json"):
        checks.credentials()
