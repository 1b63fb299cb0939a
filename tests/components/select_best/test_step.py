"""The last step of a study."""

from pathlib import Path

import pytest

from qcnn.components.select_best.step import select_best
from qcnn.trainer.config import from_mapping
from qcnn.trainer.study.failures import save_failure
from qcnn.trainer.study.trials import FailedTrial


def test_a_study_without_a_trained_trial_fails_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        save_failure(FailedTrial(from_mapping({}), f"loss: is not finite. Given: {folder.name}"), folder)
    with pytest.raises(SystemExit) as stopped:
        select_best(list(map(str, folders)), str(tmp_path / "results.csv"), str(tmp_path / "table.html"))
    assert stopped.value.code == 2
    said = "error: study: all 2 trials failed; the first: loss: is not finite. Given: first"
    assert said in capfd.readouterr().err.splitlines()
    assert "Given: second" in (tmp_path / "results.csv").read_text()
