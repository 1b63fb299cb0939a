"""The evaluator evaluates new checkpoints, keeps the best, and ends with the training run."""

import dataclasses
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qcnn import data
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.model import checkpoints
from qcnn.model.network import build_model
from qcnn.model.optimizer import assign
from qcnn.trainer.evaluator import CheckpointEvaluation, evaluate_checkpoints
from tests.shared_training_runs import copy_checkpoint, train
from tests.tensorboard_server import scalars


def _growing_folder(trained: Path, folder: Path) -> Callable[[], Path]:
    """Return a function that adds checkpoints to a training folder at successive calls and returns the folder."""
    epochs = iter([None, 2, 2, 3])

    def look() -> Path:
        if epoch := next(epochs, None):
            copy_checkpoint(trained, epoch, folder)
        return folder

    return look


def test_measures_are_the_available_metrics() -> None:
    regression = CheckpointEvaluation(epoch=3, val_loss=0.0, val_accuracy=None, fresh_mse=None)
    assert regression.measures == {"val_loss": 0.0}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcnn.trainer.evaluator._POLL_SECONDS", 0.0)


def test_evaluate_checkpoints_evaluates_once_and_keeps_best(
    small_config: ExperimentConfig, small_dataset: data.Dataset, trained: Path, tmp_path: Path
) -> None:
    look = _growing_folder(trained, tmp_path / "training")
    observed = list[dict[str, float]]()
    found = evaluate_checkpoints(
        *(small_config, small_dataset, look, tmp_path / "own", tmp_path / "logs"),
        observer=lambda _, **values: observed.append(values),
    )
    assert [each.epoch for each in found] == [2, 3]
    assert observed == [{"epoch": each.epoch, "val_loss": each.val_loss} for each in found]
    last = checkpoints.load_latest(trained / "checkpoints")
    assert last
    assert found[-1].fresh_mse == pytest.approx(last.fresh_mse, rel=1e-9)
    # Compare with the network on the validation split.
    model, samples = build_model(small_config), small_dataset.validation
    assign(model.trainable_variables, last.line.weights)
    outputs = model(dict(samples.inputs)).numpy()[:, 0]
    assert found[-1].val_loss == pytest.approx(np.mean((outputs - samples.label) ** 2), rel=1e-5)
    assert found[-1].val_loss == pytest.approx(last.history[-1].val_loss, rel=1e-5)
    assert found[-1].val_accuracy == last.history[-1].val_accuracy
    kept = checkpoints.load_latest(tmp_path / "own" / "checkpoints")
    assert kept
    assert kept.epochs == min(found, key=lambda each: each.val_loss).epoch
    # An epoch has four updates.
    events = scalars(tmp_path / "logs")["fresh_mse"]
    assert events == pytest.approx({4 * each.epoch: each.fresh_mse for each in found})
    # A restarted evaluator returns the same results.
    restarted = evaluate_checkpoints(small_config, small_dataset, lambda: trained, tmp_path / "own", tmp_path / "logs")
    assert restarted == found


def test_evaluate_checkpoints_waits_for_added_epochs(
    small_config: ExperimentConfig, small_dataset: data.Dataset, trained: Path, tmp_path: Path
) -> None:
    longer = small_config.model_copy(update={"epochs": 4})
    training = tmp_path / "training"
    copy_checkpoint(trained, 3, training)
    looks = itertools.count()

    def look() -> Path:
        if next(looks) == 2:
            train(longer, small_dataset, training)
        return training

    found = evaluate_checkpoints(longer, small_dataset, look, tmp_path / "own", tmp_path / "logs")
    assert [each.epoch for each in found] == [3, 4]


def test_evaluate_checkpoints_does_not_keep_worse(
    small_config: ExperimentConfig, small_dataset: data.Dataset, trained: Path, tmp_path: Path
) -> None:
    """The weights of the third epoch are invalid."""
    training = tmp_path / "training" / "checkpoints"
    second = checkpoints._load(trained / "checkpoints" / "epoch-000002.npz").with_epochs()
    third = checkpoints._load(trained / "checkpoints" / "epoch-000003.npz").with_epochs()
    line = dataclasses.replace(third.line, weights=tuple(100 * weights for weights in third.line.weights))
    saved_checkpoints = iter([second, dataclasses.replace(third, line=line)])

    def look() -> Path:
        if saved := next(saved_checkpoints, None):
            checkpoints.save(saved, training)
        return tmp_path / "training"

    found = evaluate_checkpoints(small_config, small_dataset, look, tmp_path / "own", tmp_path / "logs")
    assert found[1].val_loss > found[0].val_loss
    kept = checkpoints.load_latest(tmp_path / "own" / "checkpoints")
    assert kept
    assert kept.epochs == 2


def test_evaluate_checkpoints_of_other_experiment_raises(
    small_config: ExperimentConfig, small_dataset: data.Dataset, trained: Path, tmp_path: Path
) -> None:
    other = small_config.model_copy(update={"learning_rate": 0.5})
    with pytest.raises(ArtifactError, match=r"^learning_rate: .* Given: 0\.5$"):
        evaluate_checkpoints(other, small_dataset, lambda: trained, tmp_path / "own", tmp_path / "logs")


def test_evaluate_checkpoints_resumed_appends_to_complete_rows(
    small_config: ExperimentConfig, small_dataset: data.Dataset, trained: Path, tmp_path: Path
) -> None:
    """A killed evaluator may leave an incomplete row."""
    measurements = tmp_path / "own" / "evaluation.csv"
    arguments = (small_config, small_dataset, _growing_folder(trained, tmp_path / "training"), tmp_path / "own")
    found = evaluate_checkpoints(*arguments, tmp_path / "logs")
    complete = measurements.read_bytes()
    header, first, last = complete.splitlines(keepends=True)
    measurements.write_bytes(header + first + last[:-4])
    resumed = evaluate_checkpoints(small_config, small_dataset, lambda: trained, tmp_path / "own", tmp_path / "logs")
    assert resumed == found
    assert measurements.read_bytes() == complete


def test_evaluate_checkpoints_damaged_results_raise(
    small_config: ExperimentConfig, small_dataset: data.Dataset, trained: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained, tmp_path / "own")
    (tmp_path / "own" / "evaluation.csv").write_text("epoch,val_loss\n1,many\n")
    with pytest.raises(ArtifactError, match=r"^evaluation: evaluation\.csv is damaged"):
        evaluate_checkpoints(small_config, small_dataset, lambda: trained, tmp_path / "own", tmp_path / "logs")
