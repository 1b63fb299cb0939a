"""Checkpoints: retention, loading, and rejection of incompatible or damaged ones."""

import dataclasses
from pathlib import Path

import pytest

from qcnn import data
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.model import checkpoints
from tests.shared_training_runs import copy_checkpoint, train


def test_save_keeps_two_newest_and_load_latest_reads_newest(trained: Path, tmp_path: Path) -> None:
    assert checkpoints.load_latest(tmp_path) is None
    assert not checkpoints.any_in(tmp_path)
    newest = checkpoints.load_latest(trained / checkpoints.FOLDER)
    assert newest
    for epochs in (1, 2, 3):
        line = dataclasses.replace(newest.line, history=newest.history[:epochs])
        checkpoints.save(dataclasses.replace(newest, line=line, passed=epochs), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch-000002.npz", "epoch-000003.npz"]
    found = checkpoints.load_latest(tmp_path)
    assert found
    assert found.epochs == 3
    assert found.history == newest.history


def test_copy_latest_copies_unless_target_has_checkpoints(trained: Path, tmp_path: Path) -> None:
    checkpoints.copy_latest(trained, tmp_path / "new")
    assert [path.name for path in (tmp_path / "new" / checkpoints.FOLDER).iterdir()] == ["epoch-000003.npz"]
    copy_checkpoint(trained, 2, tmp_path / "begun")
    checkpoints.copy_latest(trained, tmp_path / "begun")
    assert [path.name for path in (tmp_path / "begun" / checkpoints.FOLDER).iterdir()] == ["epoch-000002.npz"]
    with pytest.raises(ArtifactError, match=r"^continue_from: the folder has no checkpoint. Given: "):
        checkpoints.copy_latest(tmp_path / "empty", tmp_path / "other")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "seed: the folder's checkpoint was trained with 0.* Given: 1"),
        ({"learning_rate": 0.1}, "learning_rate: the folder's checkpoint was trained with 0.02.* Given: 0.1"),
        ({"model": "deep"}, "model: the folder's checkpoint was trained with 'hybrid'.* Given: 'deep'"),
        ({"epochs": 2}, "epochs: the folder's checkpoint is already at epoch 3. Given: 2"),
    ],
)
def test_resume_other_experiment_raises(
    small_dataset: data.Dataset, small_config: ExperimentConfig, trained: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ArtifactError, match=f"^{message}"):
        train(small_config.model_copy(update=changes), small_dataset, trained)


def test_resume_other_dataset_raises(small_config: ExperimentConfig, trained: Path) -> None:
    other = data.generate(small_config.model_copy(update={"seed": 9}))
    with pytest.raises(ArtifactError, match=r"^dataset: .* trained on other samples"):
        train(small_config, other, trained)


def test_resume_damaged_checkpoint_raises(
    small_dataset: data.Dataset, small_config: ExperimentConfig, trained: Path, tmp_path: Path
) -> None:
    copy_checkpoint(trained, 2, tmp_path)
    (path,) = (tmp_path / "checkpoints").iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ArtifactError, match=r"^checkpoint: epoch-000002.npz is damaged .*Given: "):
        train(small_config, small_dataset, tmp_path)
