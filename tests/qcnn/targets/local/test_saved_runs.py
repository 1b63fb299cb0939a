"""What is read of runs, in whatever state they are."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping
from qcnn.results.local_run import Recorder
from qcnn.targets.local.saved_runs import find_runs, read_run
from tests.qcnn.cli.run_folders import old_run_folder, run_folder


@pytest.mark.parametrize(
    ("facts", "state", "duration"),
    [
        ({}, "succeeded", 1.0),
        ({"state": "failed"}, "failed", 1.0),
        ({"state": "interrupted"}, "interrupted", 1.0),
        # Nobody holds the folder: whoever ran it was killed.
        ({"state": "running", "ended": None}, "interrupted", None),
    ],
)
def test_state_duration_and_words_are_those_of_the_record(
    tmp_path: Path, facts: dict[str, Any], state: str, duration: float | None
) -> None:
    run = read_run(run_folder(tmp_path, "run", {"seed": 3, "options": {"max_restarts": 1}}, **facts))
    assert (run.name, run.state, run.duration, run.metrics) == ("run", state, duration, {})
    assert (run.parameters["seed"], run.parameters["max_restarts"]) == (3, 1)
    assert run.parameters["learning_rate"] == ExperimentConfig().learning_rate
    assert len(run.history) == 2


def test_a_run_that_goes_on_is_running(tmp_path: Path) -> None:
    with Recorder(from_mapping({"seed": 3}).model_dump()) as recorder:
        recorder.begin_step("generate-data", tmp_path / "run")
        run = read_run(tmp_path / "run")
    assert (run.state, run.parameters["seed"], run.duration) == ("running", 3, None)


def test_the_state_of_a_run_without_a_record_is_not_known_and_its_log_not_asked(tmp_path: Path) -> None:
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
def test_a_file_that_cannot_be_read_makes_a_run_damaged(tmp_path: Path, make: Any, file: str, content: str) -> None:
    folder = make(tmp_path, "run", {}, 0.5) if make is run_folder else make(tmp_path, "run")
    assert read_run(folder).state != "damaged"
    (folder / file).write_bytes(content.encode("utf-8", "surrogateescape"))
    run = read_run(folder)
    assert (run.name, run.state) == ("run", "damaged")


def test_runs_are_found_in_the_order_of_their_start_those_without_a_record_first(tmp_path: Path) -> None:
    run_folder(tmp_path, "a", {}, started="2026-11-21T10:00:00+01:00")
    run_folder(tmp_path, "b", {}, started="2026-11-21T08:59:00Z")
    old_run_folder(tmp_path, "z")
    old_run_folder(tmp_path, "y")
    (tmp_path / "none").mkdir()
    assert [folder.name for folder in find_runs((), tmp_path)] == ["y", "z", "b", "a"]
    shutil.rmtree(tmp_path)
    assert find_runs((), tmp_path) == []
