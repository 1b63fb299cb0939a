"""Local runs as jobs: list, read, follow and delete."""

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from qcnn.atomic_files import folder_lock
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.results.local_run import RunRecorder
from qcnn.studies.record import SELECT_STEP, save_trials
from qcnn.targets.base import Selection
from qcnn.targets.errors import StepError
from qcnn.targets.local.target import Connection, LocalTarget, find_runs, read_run
from tests.qcnn.cli.run_folders import old_run_folder, run_folder


def _ended(folder: Path, state: str) -> None:
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "state": state}))


@pytest.fixture
def target(tmp_path: Path) -> LocalTarget:
    """Create two succeeded runs. Tests change the state of `going on`."""
    for name in ("done", "going on"):
        run_folder(tmp_path / "runs", name, {}, mse=0.25)
        (tmp_path / "runs" / name / "log.txt").write_text("== train\n    epoch 1\n")
    return LocalTarget(Connection(runs=tmp_path / "runs"))


def test_local_runs_are_listed_and_read_by_name_or_folder(target: LocalTarget) -> None:
    names = [status.name for status in target.list_jobs()]
    assert sorted(names) == ["done", "going on"]
    by_name, by_folder = target.get_job("done"), target.get_job(str(target.connection.runs / "done"))
    assert (by_name.state, by_name.has_succeeded) == ("succeeded", True)
    assert by_name.name == by_folder.name == "done"
    assert target.metrics("done")["mse"] == 0.25
    with pytest.raises(ArtifactError, match=r"Given: other$"):
        target.get_job("other")


def test_local_running_run_is_followed_and_not_deleted(target: LocalTarget) -> None:
    folder = target.connection.runs / "going on"
    _ended(folder, "running")
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        assert target.get_job("going on").state == "running"
        with pytest.raises(ConfigError, match="delete: the run must have ended"):
            target.delete("going on")
    finally:
        os.close(descriptor)
    # The process that ran it no longer exists.
    lines: list[str] = []
    with pytest.raises(StepError, match="run: it ended interrupted"):
        target.follow("going on", lines.append)
    assert lines == ["== train", "    epoch 1"]
    target.delete("going on")
    assert [status.name for status in target.list_jobs()] == ["done"]


def test_local_delete_everything_removes_all_runs(target: LocalTarget) -> None:
    found = target.find(Selection(everything=True))
    assert len(found) == 2
    target.delete_found(found)
    assert not list(target.connection.runs.iterdir())


def test_local_damaged_run_has_state_damaged(target: LocalTarget) -> None:
    (target.connection.runs / "done" / "run.json").write_text("{")
    assert target.get_job("done").state == "damaged"


@pytest.mark.parametrize(
    ("facts", "state", "duration"),
    [
        ({}, "succeeded", 1.0),
        ({"state": "failed"}, "failed", 1.0),
        ({"state": "interrupted"}, "interrupted", 1.0),
        # The folder is not locked, because the process that ran it was killed.
        ({"state": "running", "ended": None}, "interrupted", None),
    ],
)
def test_read_run_returns_state_duration_and_fields(
    tmp_path: Path, facts: dict[str, Any], state: str, duration: float | None
) -> None:
    run = read_run(run_folder(tmp_path, "run", {"seed": 3, "options": {"max_restarts": 1}}, **facts))
    assert (run.name, run.state, run.duration, run.metrics) == ("run", state, duration, {})
    assert (run.parameters["seed"], run.parameters["max_restarts"]) == (3, 1)
    assert run.parameters["learning_rate"] == ExperimentConfig().learning_rate
    assert len(run.history) == 2


def test_read_run_in_progress_is_running(tmp_path: Path) -> None:
    with RunRecorder(from_mapping({"seed": 3}).model_dump()) as recorder:
        recorder.begin_step("generate-data", tmp_path / "run")
        run = read_run(tmp_path / "run")
    assert (run.state, run.parameters["seed"], run.duration) == ("running", 3, None)


def test_read_run_without_record_has_unknown_state(tmp_path: Path) -> None:
    run = read_run(old_run_folder(tmp_path, "old"))
    assert (run.state, run.parameters["seed"], run.metrics["mse"], run.duration) == ("unknown", 9, 0.75, None)


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", '{"mse": null}', "\udcff"])
@pytest.mark.parametrize(
    ("make", "file"),
    [
        (run_folder, "run.json"),
        (run_folder, "evaluate/metrics"),
        (run_folder, "train/training/history.csv"),
        (old_run_folder, "generate-data/executor_output.json"),
    ],
)
def test_read_run_unreadable_file_is_damaged(tmp_path: Path, make: Any, file: str, content: str) -> None:
    folder = make(tmp_path, "run", {}, 0.5) if make is run_folder else make(tmp_path, "run")
    assert read_run(folder).state != "damaged"
    (folder / file).write_bytes(content.encode("utf-8", "surrogateescape"))
    run = read_run(folder)
    assert (run.name, run.state) == ("run", "damaged")


def test_find_runs_sorts_by_start(tmp_path: Path) -> None:
    run_folder(tmp_path, "a", {}, started="2026-11-21T10:00:00+01:00")
    run_folder(tmp_path, "b", {}, started="2026-11-21T08:59:00Z")
    old_run_folder(tmp_path, "z")
    old_run_folder(tmp_path, "y")
    (tmp_path / "none").mkdir()
    assert [folder.name for folder in find_runs((), tmp_path)] == ["y", "z", "b", "a"]
    shutil.rmtree(tmp_path)
    assert find_runs((), tmp_path) == []


def test_studies_are_listed_with_their_state_and_trials(target: LocalTarget) -> None:
    study = target.connection.runs / "search"
    save_trials([from_mapping({"qubits": 4})], study)
    run_folder(study, "trial", {}, mse=0.25)
    (status,) = (job for job in target.list_jobs() if job.name == "search")
    assert (status.state, status.has_ended, status.has_succeeded) == ("interrupted", True, False)
    with folder_lock("study", study):
        assert target.get_job("search").state == "running"
    (study / SELECT_STEP / "model").mkdir(parents=True)
    (study / SELECT_STEP / "metrics").touch()
    status = target.get_job(str(study))
    assert (status.state, status.has_succeeded) == ("succeeded", True)
    assert [(part.name, part.state) for part in status.parts] == [("trial", "succeeded")]
    assert status.outputs == {"model": str(study / SELECT_STEP / "model")}
    # A comparison has runs only.
    assert study not in find_runs((), target.connection.runs)
