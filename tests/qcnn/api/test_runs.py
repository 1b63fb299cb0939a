"""Tables of runs in Python, compared with those of the command, and complete runs that are read again."""

import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import qcnn
from qcnn.cli.main import main
from tests.qcnn.cli.run_folders import run_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of two runs with different fields, the first of which has no metrics."""
    monkeypatch.chdir(tmp_path)
    run_folder(tmp_path / "runs", "first", {"learning_rate": 0.5}, None, started="2026-11-20T00:00:00Z", ended=None)
    times: dict[str, Any] = {"started": "2026-11-21T10:00:00Z", "ended": "2026-11-21T10:00:21.500Z"}
    run_folder(tmp_path / "runs", "second", {"seed": 1}, 0.25, **times)
    return tmp_path / "runs"


@pytest.mark.parametrize("has_pandas", [True, False])
def test_tables_are_those_of_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], has_pandas: bool
) -> None:
    if not has_pandas:
        monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setattr("sys.argv", ["qcnn", "compare", "--format", "json"])
    main()
    expected = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in expected] == ["first", "second"]
    for table, rows in (
        (qcnn.runs(), expected),
        (qcnn.runs(folder), expected),
        (qcnn.compare([folder / "second", "first"]), expected[::-1]),
    ):
        assert isinstance(table, list) != has_pandas
        records = table if isinstance(table, list) else table.to_dict("records")
        assert [{name: _cell(value) for name, value in row.items()} for row in records] == rows


def _cell(value: object) -> object:
    """Return a cell of a data frame, in which a missing number is NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


def test_table_of_empty_folder_is_empty(tmp_path: Path) -> None:
    assert len(qcnn.runs(tmp_path)) == len(qcnn.runs(tmp_path / "none")) == len(qcnn.compare([])) == 0


def test_compare_missing_run_raises(folder: Path) -> None:
    with pytest.raises(qcnn.ArtifactError, match=r"^run: must be the folder of a run, .* Given: third$"):
        qcnn.compare(["third"])


def test_complete_run_is_read(training: qcnn.TrainingResult, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert qcnn.TrainingResult.from_folder(training.folder) == training
    monkeypatch.chdir(training.folder.parent)
    assert qcnn.TrainingResult.from_folder(training.folder.name) == training
    (row,) = json.loads(json.dumps(_records(qcnn.compare([training]))))
    assert row["val_loss"] == training.metrics["val_loss"]
    incomplete = shutil.copytree(training.folder, tmp_path / "incomplete")
    shutil.rmtree(incomplete / "evaluate")
    with pytest.raises(qcnn.ArtifactError, match=r"^run: must be complete, .* Given: .*incomplete$"):
        qcnn.TrainingResult.from_folder(incomplete)
    with pytest.raises(qcnn.ArtifactError, match=r"^run: must be the folder of a run, "):
        qcnn.TrainingResult.from_folder(tmp_path)


def _records(table: object) -> object:
    return table.to_dict("records") if hasattr(table, "to_dict") else table
