"""Tests of qcnn compare --experiment with a metadata service that uses the published encoding."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from qcnn.experiment.parsing import from_mapping
from tests.kfp_backend import IMAGE, FakeBackend, Object
from tests.metadata import answering, artifact
from tests.qcnn.cli.conftest import Typed


@pytest.fixture
def runs(backend: FakeBackend, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Object]:
    """Return a succeeded run, a run that failed in its first step and an active run, with their metadata."""
    monkeypatch.chdir(tmp_path)
    words: dict[str, tuple[str, ...]] = {
        "first": ("--learning-rate", "0.5"),
        "second": (),
        "third": ("--learning-rate", "0.125"),
    }
    for name, flags in words.items():
        where = ("--target", "kubeflow", "--host", backend.host, "--image", IMAGE)
        code, _, err = typed("submit", *where, "--run-name", name, *flags)
        assert code == 0, err
    runs = {run["display_name"]: run for run in backend.objects["runs"].values()}
    runs["first"].update(state="SUCCEEDED", created_at="2026-11-21T10:00:00Z", finished_at="2026-11-21T10:01:01Z")
    runs["second"].update(state="FAILED", created_at="2026-11-21T11:00:00Z", finished_at="2026-11-21T11:00:20Z")
    # The API returns the epoch as the end time of an active run.
    runs["third"].update(state="RUNNING", created_at="2026-11-21T12:00:00Z", finished_at="1970-01-01T00:00:00Z")
    # The seed of a recurring run.
    experiment = from_mapping({"learning_rate": 0.5, "seed": 77}).to_json()
    artifacts = {
        runs["first"]["run_id"]: [
            artifact("system.Dataset", {"display_name": "dataset", "experiment": experiment}),
            artifact("system.Metrics", {"display_name": "metrics", "mse": 0.25, "epochs": 50.0, "accuracy": 1}),
        ],
        runs["third"]["run_id"]: [],
    }
    backend.metadata = answering(artifacts)
    return runs


def _rows(typed: Typed, *arguments: str) -> dict[str, dict[str, Any]]:
    code, out, _ = typed("compare", *arguments, "--format", "json")
    assert code == 0
    return {row["run"]: row for row in json.loads(out)}


def test_compare_shows_fields_metrics_duration_and_state(
    backend: FakeBackend, typed: Typed, runs: dict[str, Object]
) -> None:
    code, out, err = typed("compare", "--experiment", "qcnn", "--host", backend.host)
    assert (code, err) == (0, "")
    header, _, *rows = (line.split() for line in out.splitlines())
    assert header == ["run", "state", "seed", "learning_rate", "mse", "accuracy", "duration"]
    assert rows == [
        ["first", "succeeded", "77", "0.5", "0.2500", "1", "0:01:01"],
        ["second", "failed", "0", "0.05", "0:00:20"],
        ["third", "running", "0", "0.125"],
    ]


def test_compare_shows_shared_fields_of_failed_study(
    backend: FakeBackend, typed: Typed, runs: dict[str, Object]
) -> None:
    shared = {"qubits": 6, "learning_rate": 0.25, "seed": 3}
    searched = {"grid": {"seed": list(range(200))}, "ranges": {}, "random": 0}
    runs["second"]["runtime_config"] = {"parameters": {"experiment": shared, **searched}}
    arguments = ("--experiment", "qcnn", "--host", backend.host)
    row = _rows(typed, *arguments)["second"]
    assert (row["state"], row["qubits"], row["learning_rate"], row["seed"]) == ("failed", 6, 0.25, None)
    assert not {"experiment", "grid", "ranges", "random"} & row.keys()
    assert max(map(len, typed("compare", *arguments)[1].splitlines())) < 120


def test_run_without_creation_time_is_first(backend: FakeBackend, typed: Typed, runs: dict[str, Object]) -> None:
    del runs["second"]["created_at"]
    rows = _rows(typed, "--experiment", "qcnn", "--host", backend.host)
    assert list(rows) == ["second", "first", "third"]
    assert rows["second"]["duration"] is None


def test_remote_runs_support_csv_and_sort(backend: FakeBackend, typed: Typed, runs: dict[str, Object]) -> None:
    arguments = ("--experiment", "qcnn", "--host", backend.host, "--format", "csv", "--sort", "learning_rate")
    code, out, _ = typed("compare", *arguments)
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["run"] for row in rows] == ["second", "third", "first"]
    assert rows[2]["duration"] == "61.0"


def test_named_local_runs_are_in_same_table(
    backend: FakeBackend, typed: Typed, runs: dict[str, Object], tmp_path: Path
) -> None:
    for name in ("here", "there"):
        (tmp_path / "runs" / name / "evaluate").mkdir(parents=True)
        (tmp_path / "runs" / name / "log.txt").touch()
        (tmp_path / "runs" / name / "evaluate" / "metrics").write_text('{"mse": 0.125}')
    arguments = ("--experiment", "qcnn", "--host", backend.host)
    assert set(_rows(typed, *arguments)) == {"first", "second", "third"}
    rows = _rows(typed, "here", *arguments)
    assert set(rows) == {"first", "second", "third", "here"}
    assert (rows["here"]["mse"], rows["first"]["mse"]) == (0.125, 0.25)
    assert set(_rows(typed, "--runs", "runs", *arguments)) == {"first", "second", "third", "here", "there"}


def test_compare_without_metadata_service_shows_no_metrics(
    backend: FakeBackend, typed: Typed, runs: dict[str, Object]
) -> None:
    backend.metadata = None
    code, out, err = typed("compare", "--experiment", "qcnn", "--host", backend.host)
    assert code == 0
    assert "mse" not in out
    assert "first" in out
    assert err.startswith("no metrics: ")
    assert "--metadata-host" in err
    assert err.count("\n") == 1


def test_metadata_service_may_have_another_host(backend: FakeBackend, typed: Typed, runs: dict[str, Object]) -> None:
    # The UI has a path prefix; the metadata service has the same prefix.
    rows = _rows(typed, "--experiment", "qcnn", "--host", backend.host, "--metadata-host", f"{backend.host}/pipeline/")
    assert rows["first"]["mse"] == 0.25


def test_archived_runs_are_omitted(backend: FakeBackend, typed: Typed, runs: dict[str, Object]) -> None:
    runs["second"]["storage_state"] = "ARCHIVED"
    assert set(_rows(typed, "--experiment", "qcnn", "--host", backend.host)) == {"first", "third"}


def test_missing_experiment_error_lists_experiments(
    backend: FakeBackend, typed: Typed, runs: dict[str, Object]
) -> None:
    code, out, err = typed("compare", "--experiment", "other", "--host", backend.host)
    assert (code, out) == (2, "")
    assert err == f"error: experiment: the backend at {backend.host} has qcnn. Given: other\n"


def test_names_and_ids_of_remote_runs_are_compared(
    backend: FakeBackend, typed: Typed, runs: dict[str, Object], tmp_path: Path
) -> None:
    where = ("--host", backend.host)
    rows = _rows(typed, "second", runs["first"]["run_id"], *where)
    assert list(rows) == ["second", "first"]
    assert (rows["first"]["mse"], rows["second"]["state"]) == (0.25, "failed")
    # A local run takes precedence. A run of the experiment is listed once.
    (tmp_path / "runs" / "second").mkdir(parents=True)
    (tmp_path / "runs" / "second" / "log.txt").touch()
    assert _rows(typed, "second", "first", *where)["second"]["state"] == "unknown"
    assert list(_rows(typed, "third", "--experiment", "qcnn", *where)) == ["first", "second", "third"]


def test_compare_with_unknown_name_is_an_error(backend: FakeBackend, typed: Typed, runs: dict[str, Object]) -> None:
    code, out, err = typed("compare", "first", "none", "--host", backend.host)
    assert (code, out) == (2, "")
    assert err == f"error: run: the backend at {backend.host} has none of this ID or name. Given: none\n"
    # Without a host, all runs are local.
    calls = len(backend.calls)
    code, out, err = typed("compare", "first")
    assert (code, out, len(backend.calls)) == (2, "", calls)
    assert err.startswith("error: run: must be the folder of a run, with one of ")
