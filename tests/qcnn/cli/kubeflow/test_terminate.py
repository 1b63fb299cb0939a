"""qcnn terminate as a user types it; what it does on a cluster: test_end_run.py and tests/kfp."""

import itertools
import json
import re
from pathlib import Path

import pytest

from tests.backend import FakeBackend, Object
from tests.qcnn.cli.conftest import Typed


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


@pytest.fixture
def run(backend: FakeBackend, typed: Typed) -> Object:
    """A run that has begun, and ends some time after it was told to."""
    assert typed("submit", "--target", "kubeflow", "--host", backend.host, "--run-name", "first")[0] == 0
    (run,) = backend.objects["runs"].values()
    run["state"] = "RUNNING"
    answers = itertools.count()

    def go_on(run: Object) -> None:
        if run["state"] == "CANCELING" and next(answers):
            run["state"] = "FAILED"

    backend.on_get = go_on  # type: ignore[method-assign]
    return run


@pytest.mark.parametrize("key", ["run_id", "display_name"])
def test_a_run_is_ended_by_id_or_name_and_its_end_waited_for(
    backend: FakeBackend, typed: Typed, run: Object, key: str
) -> None:
    code, out, err = typed("terminate", run[key], "--host", backend.host)
    assert (code, err) == (0, "")
    assert f"run: canceling\nrun: failed\nrun {run['run_id']} is terminated\n" in out
    assert run["state"] == "FAILED"
    # What trains costs most: it is deleted before the end is waited for.
    seen = out.index("TFJobs of the run in namespace kubeflow were not checked: cluster: no access")
    assert seen < out.index("run: canceling")


def test_a_dry_run_says_what_would_be_ended_and_ends_nothing(backend: FakeBackend, typed: Typed, run: Object) -> None:
    before = len(backend.calls)
    code, out, err = typed("terminate", "first", "--host", backend.host, "--dry-run")
    assert (code, err) == (0, "")
    assert out == f"run {run['run_id']}, running: it and its TFJobs in kubeflow would be terminated\n"
    assert all(call.startswith("GET") for call in backend.calls[before:])


def test_a_run_that_does_not_end_is_waited_for_no_longer_than_asked_and_its_state_said(
    backend: FakeBackend, typed: Typed, run: Object
) -> None:
    backend.on_get = lambda run: None  # type: ignore[method-assign]
    code, out, err = typed("terminate", "first", "--timeout", "0.05", "--host", backend.host)
    assert code == 1
    assert "was not seen" in out
    said = "it has not ended within 0.05 s; the backend shows it as canceling"
    assert err == f"error: run: {said}. Given: {run['run_id']}\n"


def test_a_run_with_nothing_behind_it_is_cleaned_up_after_and_said_not_to_end(
    backend: FakeBackend, typed: Typed, run: Object
) -> None:
    message = "Failed to terminate run: workflows.argoproj.io not found"
    backend.answers[f"runs/{run['run_id']}:terminate"] = (500, json.dumps({"code": 13, "message": message}))
    code, out, err = typed("terminate", run["run_id"], "--host", backend.host)
    assert code == 1
    assert "was not seen" in out
    assert re.fullmatch(rf"error: run: terminating it failed \(.*{message}.*shows it as running\. Given: .*\n", err)
    assert err.count("Given: ") == 1


def test_a_run_that_has_ended_is_not_terminated_again(backend: FakeBackend, typed: Typed, run: Object) -> None:
    run["state"] = "SUCCEEDED"
    code, out, _ = typed("terminate", run["run_id"], "--host", backend.host)
    assert code == 0
    assert "has already ended: succeeded" in out
    assert not [call for call in backend.calls if "terminate" in call]


def test_a_name_that_two_runs_have_is_refused_with_their_ids(backend: FakeBackend, typed: Typed, run: Object) -> None:
    assert typed("submit", "--target", "kubeflow", "--host", backend.host, "--run-name", "first")[0] == 0
    code, out, err = typed("terminate", "first", "--host", backend.host)
    assert (code, out) == (2, "")
    assert all(identity in err for identity in backend.objects["runs"])


@pytest.mark.parametrize("name", ["second", "00000000-0000-0000-0000-000000000000"])
def test_a_run_that_is_not_there_is_one_line(backend: FakeBackend, typed: Typed, run: Object, name: str) -> None:
    code, out, err = typed("terminate", name, "--host", backend.host)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: [^\n]+Given: [^\n]+\n", err)
    assert name in err
