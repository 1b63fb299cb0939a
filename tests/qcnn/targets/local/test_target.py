"""Runs of this machine as jobs: listed, read, followed and deleted."""

import fcntl
import json
import os
from pathlib import Path

import pytest

from qcnn.errors import ArtifactError, ConfigError
from qcnn.targets.base import Selection
from qcnn.targets.errors import StepError
from qcnn.targets.local.target import Connection, LocalTarget
from tests.qcnn.cli.run_folders import run_folder

TARGET = LocalTarget()


def _ended(folder: Path, state: str) -> None:
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "state": state}))


@pytest.fixture
def runs(tmp_path: Path) -> Connection:
    """A run that has succeeded, and one that runs, since this process holds its folder."""
    for name in ("done", "going on"):
        run_folder(tmp_path / "runs", name, {}, mse=0.25)
        (tmp_path / "runs" / name / "log.txt").write_text("== train\n    epoch 1\n")
    return Connection(runs=tmp_path / "runs")


def test_runs_are_listed_and_read_by_name_or_folder(runs: Connection) -> None:
    names = [status.name for status in TARGET.list_jobs(runs)]
    assert sorted(names) == ["done", "going on"]
    by_name, by_folder = TARGET.get_job("done", runs), TARGET.get_job(str(runs.runs / "done"), runs)
    assert (by_name.state, by_name.has_succeeded) == ("succeeded", True)
    assert by_name.name == by_folder.name == "done"
    assert TARGET.metrics("done", runs)["mse"] == 0.25
    with pytest.raises(ArtifactError, match=r"Given: other$"):
        TARGET.get_job("other", runs)


def test_what_runs_is_followed_and_not_deleted(runs: Connection) -> None:
    folder = runs.runs / "going on"
    _ended(folder, "running")
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        assert TARGET.get_job("going on", runs).state == "running"
        with pytest.raises(ConfigError, match="delete: the run has not ended"):
            TARGET.delete("going on", runs)
    finally:
        os.close(descriptor)
    # The process that ran it is gone.
    said: list[str] = []
    with pytest.raises(StepError, match="run: it ended interrupted"):
        TARGET.follow("going on", runs, said.append)
    assert said == ["== train", "    epoch 1"]
    TARGET.delete("going on", runs)
    assert [status.name for status in TARGET.list_jobs(runs)] == ["done"]


def test_everything_can_be_deleted(runs: Connection) -> None:
    found = TARGET.find(Selection(everything=True), runs)
    assert len(found) == 2
    TARGET.delete_found(found, runs)
    assert not list(runs.runs.iterdir())


def test_a_damaged_run_is_shown_as_such(runs: Connection) -> None:
    (runs.runs / "done" / "run.json").write_text("{")
    assert TARGET.get_job("done", runs).state == "damaged"
