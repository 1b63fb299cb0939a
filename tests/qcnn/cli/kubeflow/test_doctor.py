"""qcnn doctor on a Kubeflow Pipelines backend."""

import json

import pytest

from tests.kfp_backend import FakeBackend
from tests.qcnn.cli.conftest import Typed

KUBEFLOW = ("doctor", "--target", "kubeflow", "--format", "json", "--host")


def findings(typed: Typed, *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    code, out, _ = typed(*KUBEFLOW, *arguments)
    return code, {each["check"]: (each["state"], each["found"]) for each in json.loads(out)}


def test_backend_without_kubeconfig_passes(backend: FakeBackend, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "none")
    code, found = findings(typed, backend.host)
    assert code == 0
    assert found["host"] == ("passed", f"{backend.host}, of unknown version")
    assert found["runs"] == ("passed", "can be listed in namespace kubeflow")
    assert found["cluster"][0] == found["engine"][0] == found["default store"][0] == "unknown"


@pytest.mark.parametrize(
    ("path", "status", "check", "message"),
    [
        ("healthz", 401, "host", "credentials: rejected; log in with --token"),
        ("healthz", 503, "host", "host: the backend failed"),
        ("runs", 403, "runs", "permission: denied"),
    ],
)
def test_backend_that_rejects_requests_fails(
    path: str, status: int, check: str, message: str, backend: FakeBackend, typed: Typed
) -> None:
    backend.answers[path] = status, "{}"
    code, found = findings(typed, backend.host)
    assert code == 1
    assert found[check][0] == "failed"
    assert message in found[check][1]
