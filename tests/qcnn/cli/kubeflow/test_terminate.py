"""Tests of qcnn terminate; tests/kfp tests it on a cluster."""

import itertools
import json
import re
from pathlib import Path

import pytest

from tests.kfp_backend import IMAGE, FakeBackend, Object
from tests.qcnn.cli.conftest import Typed


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


@pytest.fixture
def run(backend: FakeBackend, typed: Typed) -> Object:
    """Return an active run that stops some time after its termination is requested."""
    where = ("--target", "kubeflow", "--host", backend.host, "--image", IMAGE)
    assert typed("submit", *where, "--run-name", "first")[0] == 0
    (run,) = backend.objects["runs"].values()
    run["state"] = "RUNNING"
    answers = itertools.count()

    def advance(run: Object) -> None:
        if run["state"] == "CANCELING" and next(answers):
            run["state"] = "FAILED"

    backend.on_get = advance  # type: ignore[method-assign]
    return run


@pytest.mark.parametrize("key", ["run_id", "display_name"])
def test_terminate_by_id_or_name_waits_for_run(backend: FakeBackend, typed: Typed, run: Object, key: str) -> None:
    code, out, err = typed("terminate", run[key], "--host", backend.host)
    assert (code, err) == (0, "")
    assert f"run: canceling\nrun: failed\nrun {run['run_id']} is terminated\n" in out
    assert run["state"] == "FAILED"
    # Training jobs cost most, so they are deleted before the command waits for the run.
    seen = out.index("training jobs of the run in namespace kubeflow were not checked: cluster: no valid configuration")
    assert seen < out.index("run: canceling")


def test_dry_run_names_run_and_terminates_nothing(backend: FakeBackend, typed: Typed, run: Object) -> None:
    before = len(backend.calls)
    code, out, err = typed("terminate", "first", "--host", backend.host, "--dry-run")
    assert (code, err) == (0, "")
    assert out == f"run {run['run_id']}, running: it and its training jobs in kubeflow would be terminated\n"
    assert all(call.startswith("GET") for call in backend.calls[before:])


def test_terminate_reports_state_after_timeout(backend: FakeBackend, typed: Typed, run: Object) -> None:
    backend.on_get = lambda run: None  # type: ignore[method-assign]
    code, out, err = typed("terminate", "first", "--timeout", "0.05", "--host", backend.host)
    assert code == 1
    assert "were not checked" in out
    message = "it has not ended within 0.05 s; the backend shows it as canceling"
    assert err == f"error: run: {message}. Given: {run['run_id']}\n"


def test_terminate_of_run_without_workflow_reports_it(backend: FakeBackend, typed: Typed, run: Object) -> None:
    message = "Failed to terminate run: workflows.argoproj.io not found"
    backend.answers[f"runs/{run['run_id']}:terminate"] = (500, json.dumps({"code": 13, "message": message}))
    code, out, err = typed("terminate", run["run_id"], "--host", backend.host)
    assert code == 1
    assert "were not checked" in out
    assert re.fullmatch(rf"error: run: terminating it failed \(.*{message}.*shows it as running\. Given: .*\n", err)
    assert err.count("Given: ") == 1


def test_terminate_of_finished_run_does_nothing(backend: FakeBackend, typed: Typed, run: Object) -> None:
    run["state"] = "SUCCEEDED"
    code, out, _ = typed("terminate", run["run_id"], "--host", backend.host)
    assert code == 0
    assert "has already ended: succeeded" in out
    assert not [call for call in backend.calls if "terminate" in call]


def test_terminate_by_ambiguous_name_lists_ids(backend: FakeBackend, typed: Typed, run: Object) -> None:
    where = ("--target", "kubeflow", "--host", backend.host, "--image", IMAGE)
    assert typed("submit", *where, "--run-name", "first")[0] == 0
    code, out, err = typed("terminate", "first", "--host", backend.host)
    assert (code, out) == (2, "")
    assert all(identity in err for identity in backend.objects["runs"])


@pytest.mark.parametrize("name", ["second", "00000000-0000-0000-0000-000000000000"])
def test_terminate_of_missing_run_is_an_error(backend: FakeBackend, typed: Typed, run: Object, name: str) -> None:
    code, out, err = typed("terminate", name, "--host", backend.host)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: [^\n]+Given: [^\n]+\n", err)
    assert name in err
