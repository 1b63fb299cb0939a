"""Several initializations: trials, selection of the best, and resuming."""

import dataclasses
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from qcnn import data
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model import checkpoints
from qcnn.model.history import EpochMetrics
from qcnn.model.network import build_model, initial_weights
from qcnn.results import export
from qcnn.trainer.state import TrainingState
from qcnn.trainer.tensorboard import batch_profile
from tests.shared_training_runs import SMALL, assert_same_training, outcomes, shared_programs, train
from tests.tensorboard_server import scalars

STARTS = 3
# Each initialization is tried for two epochs.
WORDS = {
    **SMALL,
    "seed": 1,
    "model": "deep",
    "epochs": 11,
    "options": {**SMALL["options"], "num_initializations": STARTS},
}


@pytest.fixture(scope="module")
def config() -> ExperimentConfig:
    return from_mapping(WORDS)


@pytest.fixture(scope="module")
def every(config: ExperimentConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read-only training folder, and folders with a copy of each checkpoint."""
    folder = tmp_path_factory.mktemp("starts")
    copies = folder / "every"

    def keep(kind: str, **_: object) -> None:
        for path in (folder / "training" / checkpoints.FOLDER).glob("*.npz"):
            if not (copy := copies / path.stem).exists():
                shutil.copytree(folder / "training", copy, ignore=shutil.ignore_patterns("logs", "epoch-*"))
                shutil.copy(path, copy / checkpoints.FOLDER)

    train(config, data.generate(config), folder / "training", listener=keep)
    keep("state")
    return folder


def test_initialization_with_lowest_validation_loss_continues(
    config: ExperimentConfig, every: Path, tmp_path: Path
) -> None:
    programs = shared_programs()
    training = TrainingState(config, data.generate(config), tmp_path, tf.distribute.get_strategy(), None, programs)
    tried: list[list[EpochMetrics]] = [[] for _ in range(STARTS)]
    with batch_profile(range(0), None) as profile:
        while training.is_undecided:
            number = training.tried
            tried[number].append(training.epoch(profile)[0])
            training.go_on()
    assert [len(epochs) for epochs in tried] == [2, 2, 2]
    best = min(tried, key=lambda epochs: min(epoch.val_loss for epoch in epochs))
    assert best is not tried[-1]
    history = checkpoints.load_history(every / "training")
    assert outcomes(history[:2]) == outcomes(training.history) == outcomes(best)
    assert [epoch.epoch for epoch in history] == list(range(1, 12))
    # The events have all epochs of the selected initialization only, including those of its trial.
    assert list(scalars(every / "training" / "logs" / "validation")["loss"]) == [4 * epoch for epoch in range(1, 12)]


@pytest.mark.parametrize("epoch", [3, 4, 6])
def test_initializations_resume_to_same_weights(
    config: ExperimentConfig, every: Path, tmp_path: Path, epoch: int
) -> None:
    shutil.copytree(every / "every" / f"epoch-{epoch:06d}", tmp_path, dirs_exist_ok=True)
    train(config, data.generate(config), tmp_path)
    assert_same_training(every / "training", tmp_path)
    assert outcomes(checkpoints.load_history(tmp_path)) == outcomes(checkpoints.load_history(every / "training"))


def test_initializations_take_no_more_epochs_than_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    words = {**WORDS, "epochs": 2, "options": {**WORDS["options"], "num_initializations": 12}}
    epochs: list[str] = []
    for config in (from_mapping(words), from_mapping({**words, "epochs": 20})):
        with caplog.at_level(logging.INFO, logger="qcnn"):
            history = train(config, data.generate(config), tmp_path, observer=lambda kind, **_: epochs.append(kind))
        # Two others, which take one epoch each. With more epochs, a decided training run continues as it is.
        assert epochs.count("epoch") == 2 + config.epochs
        assert len(history) == config.epochs
    begun = "trying 3 initializations for 1 epoch each (num_initializations 12: no more epochs than training itself)"
    assert caplog.messages.count(f"{begun}; the best continues") == 1
    tried = [message for message in caplog.messages if message.startswith("initialization ")]
    assert [message.split(":")[0] for message in tried] == [f"initialization {number} of 3" for number in (1, 2, 3)]


def test_initialization_beyond_limit_is_compared_on_resume(
    config: ExperimentConfig, every: Path, tmp_path: Path
) -> None:
    """Earlier versions tried all initializations, however many epochs that took."""
    saved = checkpoints.load_latest(every / "every" / "epoch-000003" / checkpoints.FOLDER)
    assert saved
    assert (saved.tried, saved.epochs) == (1, 1)
    words = {**WORDS, "options": {**WORDS["options"], "num_initializations": 12}}
    last = dataclasses.replace(saved.with_epochs(), config=from_mapping(words), tried=11)
    checkpoints.save(last, tmp_path / checkpoints.FOLDER)
    history = train(last.config, data.generate(config), tmp_path)
    tried = checkpoints.load_history(every / "training")
    assert outcomes(history[:2]) == outcomes(tried[:2])
    assert len(history) == 11


def test_export_during_initializations_raises(every: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"^training: must be complete, 11 epochs\. Given: "):
        export.export(every / "every" / "epoch-000003", tmp_path / "model")


def test_initial_weights_differ_and_first_are_those_of_model() -> None:
    config = from_mapping({**SMALL, "hidden_units": 3})
    model = build_model(config)
    first, second, repeated = (initial_weights(model, config, start) for start in (0, 1, 1))
    for weights, variable in zip(first, model.trainable_variables, strict=True):
        np.testing.assert_array_equal(weights, variable.numpy())
    assert not any(np.array_equal(one, two) for one, two in zip(first[:2], second[:2], strict=True))
    for one, two in zip(second, repeated, strict=True):
        np.testing.assert_array_equal(one, two)
