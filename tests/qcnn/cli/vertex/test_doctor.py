"""qcnn doctor on the local Vertex AI, without Google's other APIs."""

import json

import pytest

from tests.qcnn.cli.conftest import Typed
from tests.vertex.fake_service.vertex import Vertex

VERTEX = ("doctor", "--target", "vertex", "--format", "json")


@pytest.fixture(autouse=True)
def _without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")


def findings(on_vertex: Typed, *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    code, out, _ = on_vertex(*VERTEX, *arguments)
    return code, {each["check"]: (each["state"], each["found"]) for each in json.loads(out)}


def test_region_and_bucket_pass_and_what_needs_other_apis_is_unknown(on_vertex: Typed, vertex: Vertex) -> None:
    code, found = findings(on_vertex, "--output", f"gs://{vertex.bucket}/runs")
    assert code == 0, found
    assert found["region"] == ("passed", f"{vertex.location} answers for project {vertex.project}")
    assert found["credentials"][0] == found["bucket"][0] == found["output"][0] == "passed"
    unknown = ("unknown", "serviceusage.googleapis.com does not answer")
    assert found["APIs"] == found["quota"] == unknown
    assert found["rights"] == ("unknown", "cloudresourcemanager.googleapis.com does not answer")


def test_bucket_that_does_not_exist_fails(on_vertex: Typed) -> None:
    code, found = findings(on_vertex, "--output", "gs://no-such-bucket/runs")
    assert code == 1
    assert found["bucket"][0] == found["output"][0] == "failed"
