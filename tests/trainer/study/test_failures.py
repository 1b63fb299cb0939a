"""Why a trial failed is kept, and read again."""

from pathlib import Path

import pytest

from qcnn.trainer.config import from_mapping
from qcnn.trainer.errors import ArtifactError, TrainingError
from qcnn.trainer.study.failures import failure_kept, load_failure, save_failure
from qcnn.trainer.study.trials import FailedTrial


def test_a_failure_is_kept_where_the_training_would_be(tmp_path: Path) -> None:
    experiment = from_mapping({"seed": 7})
    with failure_kept(experiment, tmp_path / "training"):
        raise TrainingError("loss: is not finite. Given: nan")
    assert load_failure(tmp_path / "training") == FailedTrial(experiment, "loss: is not finite. Given: nan")
    assert load_failure(tmp_path) is None
    with pytest.raises(KeyboardInterrupt), failure_kept(experiment, tmp_path / "other"):
        raise KeyboardInterrupt
    assert load_failure(tmp_path / "other") is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"experiment": {"qubits": 3}, "reason": ""}', "\x00"])
def test_a_damaged_failure_is_one_line(tmp_path: Path, content: str) -> None:
    save_failure(FailedTrial(from_mapping({}), "reason"), tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(content)
    with pytest.raises(ArtifactError, match=r"^training: failure\.json is damaged \(.*Given: "):
        load_failure(tmp_path)
