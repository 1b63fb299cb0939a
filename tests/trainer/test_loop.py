import contextlib
import csv
import dataclasses
import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tensorflow.python.autograph.impl import api

from qcnn import data
from qcnn.atomic_files import exclusive_lock
from qcnn.errors import ArtifactError, ConfigError, TrainingError
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping, merge
from qcnn.model import checkpoints
from qcnn.model.history import EpochMetrics, Progress
from qcnn.model.network import build_model
from qcnn.model.optimizer import assign
from qcnn.model.steps import same_everywhere
from qcnn.process.library_loading import start_compiler
from qcnn.results import export
from qcnn.results.evaluate import evaluate, predict, predict_from_shots
from qcnn.trainer import loop
from qcnn.trainer.state import TrainingState
from qcnn.trainer.tensorboard import batch_profile
from tests.shared_training_runs import (
    SMALL,
    assert_same_training,
    copy_checkpoint,
    outcomes,
    shared_programs,
    train,
)
from tests.tensorboard_server import scalars


def test_train_equals_explicit_gradient_descent(
    small_dataset: data.Dataset, small_config: ExperimentConfig, tmp_path: Path
) -> None:
    """One epoch of SGD is computed explicitly, with the smaller last batch divided by its size."""
    config = small_config.model_copy(update={"optimizer": "sgd", "epochs": 1, "learning_rate": 0.1})
    history = train(config, small_dataset, tmp_path)

    model = build_model(config)
    samples = small_dataset.train.take(data.epoch_order(config.seed, 1, len(small_dataset.train)))
    squared = []
    for start in range(0, len(samples), config.batch_size):
        batch = samples.take(np.arange(start, min(start + config.batch_size, len(samples))))
        with tf.GradientTape() as tape:
            errors = model(dict(batch.inputs))[:, 0] - batch.label.astype(np.float64)
            loss = tf.reduce_sum(errors**2) / len(batch)
        squared += (errors.numpy() ** 2).tolist()
        gradients = tape.gradient(loss, model.trainable_variables)
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
            variable.assign_sub(0.1 * gradient)

    assert history[0].train_loss == pytest.approx(np.mean(squared), rel=1e-5)
    checkpoint = checkpoints.load_latest(tmp_path / "checkpoints")
    assert checkpoint
    for weights, variable in zip(checkpoint.line.weights, model.trainable_variables, strict=True):
        # The gradient of the simulator is accurate to 1e-5. A wrong divisor would change weights by 1e-2.
        np.testing.assert_allclose(weights, variable.numpy(), atol=1e-4)


def test_autograph_converts_no_code_of_the_package(
    small_dataset: data.Dataset, small_config: ExperimentConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AutoGraph writes a file for each function, which remains in the temporary folder if the process is killed."""
    converted: list[str] = []

    def convert(entity: Any, context: Any) -> Any:
        converted.append(f"{entity.__module__}.{entity.__qualname__}")
        return original(entity, context)

    original = api._convert_actual
    monkeypatch.setattr(api, "_convert_actual", convert)
    tf.function(lambda value: value + 1)(1)
    assert len(converted) == 1
    start_compiler()
    assert same_everywhere(tf.distribute.get_strategy(), 1)
    # Not the functions that earlier tests have compiled.
    loop.train(small_config, small_dataset, tmp_path / "training")
    export.export(tmp_path / "training", tmp_path / "model")
    evaluate(tmp_path / "model", small_dataset)
    predict_from_shots(build_model(small_config), small_dataset.test, 10, 0)
    assert not [name for name in converted[1:] if name.startswith("qcnn.")]


def test_complete_checkpoint_has_simulator_and_fresh_mse(
    small_dataset: data.Dataset, small_config: ExperimentConfig, trained: Path, tmp_path: Path
) -> None:
    checkpoint = checkpoints.load_latest(trained / "checkpoints")
    assert checkpoint
    assert checkpoint.simulator == "statevector_cpu"
    model, fresh = build_model(small_config), data.sample_fresh(4, seed=0)
    assign(model.trainable_variables, checkpoint.line.weights)
    assert checkpoint.fresh_mse == pytest.approx(np.mean((predict(model, fresh) - fresh.label) ** 2), rel=1e-5)
    (before,) = (path for path in (trained / "checkpoints").iterdir() if path.name == "epoch-000002.npz")
    assert checkpoints._load(before).fresh_mse is None
    # Of no epoch, which would be compiled.
    config = small_config.model_copy(update={"simulator": "lightcone"})
    TrainingState(config, small_dataset, tmp_path, tf.distribute.get_strategy(), None).save()
    other = checkpoints.load_latest(tmp_path / "checkpoints")
    assert other
    assert other.simulator == "lightcone"


class Again(NamedTuple):
    """Repetition of the small training run in another folder, with one checkpoint."""

    folder: Path
    history: tuple[EpochMetrics, ...]
    lines: list[str]


@pytest.fixture(scope="module")
def again(
    small_dataset: data.Dataset, small_config: ExperimentConfig, tmp_path_factory: pytest.TempPathFactory
) -> Again:
    options = small_config.options.model_copy(update={"checkpoint_seconds": 3600.0})
    folder = tmp_path_factory.mktemp("again")
    with logged_lines() as lines:
        history = train(small_config.model_copy(update={"options": options}), small_dataset, folder)
    return Again(folder, history, lines)


def test_estimate_is_logged_before_first_epoch(again: Again) -> None:
    expected, first = (
        next(index for index, line in enumerate(again.lines) if line.startswith(start))
        for start in ("expected on two cores: about 0.0", "epoch 1/3")
    )
    assert expected < first


def test_validation_loss_equals_keras(
    small_dataset: data.Dataset, small_config: ExperimentConfig, trained: Path
) -> None:
    checkpoint = checkpoints.load_latest(trained / "checkpoints")
    assert checkpoint
    model = build_model(small_config)
    for variable, value in zip(model.trainable_variables, checkpoint.line.weights, strict=True):
        variable.assign(value)
    split = small_dataset.validation
    loss, accuracy = model.evaluate(dict(split.inputs), split.label.astype(np.float64), verbose=0)
    assert checkpoint.history[-1].val_loss == pytest.approx(loss, rel=1e-5)
    assert checkpoint.history[-1].val_accuracy == pytest.approx(accuracy)


def test_train_twice_gives_identical_losses(trained: Path, again: Again) -> None:
    checkpoint = checkpoints.load_latest(trained / "checkpoints")
    assert checkpoint
    assert outcomes(again.history) == outcomes(checkpoint.history)


def test_train_resumed_gives_same_weights(trained: Path, continued: Path) -> None:
    assert_same_training(trained, continued)


def test_train_complete_folder_changes_nothing(
    small_dataset: data.Dataset, small_config: ExperimentConfig, trained: Path
) -> None:
    def state() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}

    before = state()
    history = train(small_config, small_dataset, trained)
    assert [epoch.epoch for epoch in history] == [1, 2, 3]
    assert state() == before


def test_train_complete_folder_removes_rows_of_killed_process(
    small_dataset: data.Dataset, small_config: ExperimentConfig, trained: Path, tmp_path: Path
) -> None:
    copy_checkpoint(trained, 3, tmp_path)
    with (tmp_path / "history.csv").open("a") as file:
        file.write("4,0.5,0.")
    assert len(train(small_config, small_dataset, tmp_path)) == 3
    assert (tmp_path / "history.csv").read_bytes() == (trained / "history.csv").read_bytes()


@pytest.mark.parametrize(("epoch", "damage"), [(2, "is damaged"), (3, "is damaged"), (2, "is missing")])
def test_train_damaged_history_raises_one_line(
    small_dataset: data.Dataset,
    small_config: ExperimentConfig,
    trained: Path,
    tmp_path: Path,
    epoch: int,
    damage: str,
) -> None:
    copy_checkpoint(trained, epoch, tmp_path)
    history = tmp_path / "history.csv"
    if damage == "is missing":
        history.unlink()
    else:
        history.write_text(history.read_text().replace("1,0", "1,1", 1))
    with pytest.raises(ArtifactError, match=rf"^training: history\.csv {damage}[^\n]* Given: {tmp_path}"):
        train(small_config, small_dataset, tmp_path)


def test_save_cost_does_not_depend_on_earlier_epochs(
    small_dataset: data.Dataset, small_config: ExperimentConfig, trained: Path, tmp_path: Path
) -> None:
    """Compare the bytes that a save adds after 10 epochs and after 2,000."""
    saved = checkpoints.load_latest(trained / "checkpoints")
    assert saved
    config, sizes = small_config.model_copy(update={"epochs": 10_000}), []
    for epochs in (10, 2000):
        folder = tmp_path / str(epochs)
        rows = tuple(EpochMetrics(number, 0.5, 0.5, 0.25, 1.0, 0.125) for number in range(1, epochs + 1))
        line = dataclasses.replace(saved.line, progress=Progress.of(rows), history=rows)
        strategy = tf.distribute.get_strategy()
        checkpoint = dataclasses.replace(saved, line=line, passed=epochs)
        training = TrainingState(config, small_dataset, folder, strategy, checkpoint, shared_programs())
        training.save()
        before = (folder / "history.csv").stat().st_size
        with batch_profile(range(0), None) as profile:
            training.epoch(profile)
        training.save()
        (path,) = (folder / "checkpoints").glob(f"*{epochs + 1}.npz")
        sizes.append((path.stat().st_size, (folder / "history.csv").stat().st_size - before))
    (small, row), (large, later_row) = sizes
    # More digits of a few numbers.
    assert large < small + 100
    assert later_row < row + 10


def test_train_mirrored_equals_single_device(
    small_dataset: data.Dataset, small_config: ExperimentConfig, trained: Path, tmp_path: Path
) -> None:
    config = small_config.model_copy(update={"strategy": "mirrored"})
    history = train(config, small_dataset, tmp_path)
    checkpoint = checkpoints.load_latest(trained / "checkpoints")
    assert checkpoint
    np.testing.assert_allclose(outcomes(history), outcomes(checkpoint.history), rtol=1e-5)


def test_train_writes_history_and_events(trained: Path) -> None:
    with (trained / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    for name in ("train", "validation"):
        losses = scalars(trained / "logs" / name)["loss"]
        column = "train_loss" if name == "train" else "val_loss"
        # 28 samples give 4 updates per epoch.
        assert losses == pytest.approx({4 * int(row["epoch"]): float(row[column]) for row in rows}, rel=1e-6)


def test_checkpoint_seconds_reduces_checkpoints(again: Again) -> None:
    assert [path.name for path in (again.folder / "checkpoints").iterdir()] == ["epoch-000003.npz"]


def test_train_non_finite_loss_raises_with_epoch_and_step(
    small_dataset: data.Dataset, small_config: ExperimentConfig, tmp_path: Path
) -> None:
    config = small_config.model_copy(update={"optimizer": "sgd", "learning_rate": 1e300})
    with pytest.raises(TrainingError, match=r"no longer finite at epoch 1, step 2.*Given: loss "):
        train(config, small_dataset, tmp_path)
    assert not list(tmp_path.rglob("*.npz"))


def test_train_without_cluster_for_workers_raises(small_dataset: data.Dataset, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^workers: "):
        train(from_mapping({"qubits": 4}), small_dataset, tmp_path)


@pytest.fixture(autouse=True)
def _no_graphs_left() -> Iterator[None]:
    yield
    tf_keras.backend.clear_session()


def test_train_constant_readouts_raises_before_first_epoch(small_dataset: data.Dataset, tmp_path: Path) -> None:
    config = from_mapping({**SMALL, "model": "tests.vanishing_circuits:vanishing"})
    with pytest.raises(ConfigError, match=r"^model: must have a readout that differs.*; Z on qubit 1 is equal for all"):
        train(config, small_dataset, tmp_path)
    assert checkpoints.load_latest(tmp_path / "checkpoints") is None


def test_train_some_constant_readouts_warns(
    small_dataset: data.Dataset, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = from_mapping({**SMALL, "model": "tests.vanishing_circuits:partly_vanishing", "epochs": 1})
    with caplog.at_level(logging.WARNING, logger="qcnn"):
        train(config, small_dataset, tmp_path)
    assert "2 of 3 readouts are equal for all samples, so nothing is learned from Z on qubit 0, 3" in caplog.messages


def test_epoch_predictions_within_rounding_count_as_wrong(small_dataset: data.Dataset, tmp_path: Path) -> None:
    config = from_mapping({**SMALL, "model": "tests.vanishing_circuits:vanishing"})
    training = TrainingState(config, small_dataset, tmp_path, tf.distribute.get_strategy(), None, shared_programs())
    with batch_profile(range(0), None) as profile:
        epoch, measures = training.epoch(profile)
    assert epoch.train_loss == pytest.approx(1)
    assert (epoch.train_accuracy, epoch.val_accuracy) == (0, 0)
    assert not measures[:, 1].any()


def test_train_patience_stops_and_exports_best_weights(tmp_path: Path) -> None:
    options = {**SMALL["options"], "patience": 3, "export_checkpoint": "both"}
    config = from_mapping({**SMALL, "epochs": 60, "learning_rate": 0.3, "options": options})
    history = train(config, data.generate(config), tmp_path)
    # Training is complete, so a second call changes nothing.
    assert train(config, data.generate(config), tmp_path) == history
    losses = [epoch.val_loss for epoch in history]
    best = losses.index(min(losses))
    assert len(history) < 60
    assert len(history) - 1 - best == 3
    export.export(tmp_path, tmp_path / "model")
    model, description = export.load(tmp_path / "model")
    assert description["weights"] == "best"
    assert description["training"]["weights_epoch"] == best + 1
    assert description["training"]["val_loss"] == losses[best]
    split = data.generate(config).validation
    assert np.mean((predict(model, split) - split.label) ** 2) == pytest.approx(losses[best], rel=1e-6)
    checkpoint, fresh = checkpoints.load_latest(tmp_path / "checkpoints"), data.sample_fresh(4, seed=0)
    assert checkpoint
    # `fresh_mse` is that of the exported weights, not of the last.
    assert checkpoint.fresh_mse == pytest.approx(np.mean((predict(model, fresh) - fresh.label) ** 2), rel=1e-5)
    model.load_weights(tmp_path / "model" / "last.weights.h5")
    assert np.mean((predict(model, split) - split.label) ** 2) == pytest.approx(losses[-1], rel=1e-6)


def test_train_stopped_after_epoch_is_complete(
    small_config: ExperimentConfig,
    small_dataset: data.Dataset,
    trained: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The schedule is constant, so weights do not depend on the number of epochs. More epochs continue the run."""
    two, longer = (small_config.model_copy(update={"epochs": epochs}) for epochs in (2, 4))
    train(two, small_dataset, tmp_path / "two")
    asked: list[int] = []
    workdir = tmp_path / "stopped"

    def should_stop(epoch: int) -> bool:
        asked.append(epoch)
        return epoch == 2

    with caplog.at_level(logging.INFO, "qcnn"):
        history = train(small_config, small_dataset, workdir, should_stop=should_stop)
    assert "stopped after epoch 2 by a callback" in caplog.messages
    assert (len(history), asked) == (2, [1, 2])
    assert_same_training(workdir, tmp_path / "two")
    assert train(small_config, small_dataset, workdir, should_stop=should_stop) == history
    assert asked == [1, 2]
    assert export.export(workdir, tmp_path / "model")["training"]["epochs"] == 2
    copied = tmp_path / "copied"
    checkpoints.copy_latest(workdir, copied)
    assert train(small_config, small_dataset, copied) == history
    assert outcomes(train(longer, small_dataset, workdir))[:3] == outcomes(checkpoints.load_history(trained))


def test_train_stopped_after_last_epoch_has_same_checkpoint(
    small_config: ExperimentConfig, small_dataset: data.Dataset, trained: Path, tmp_path: Path
) -> None:
    train(small_config, small_dataset, tmp_path, should_stop=lambda epoch: epoch == 3)
    assert_same_training(tmp_path, trained)
    saved = checkpoints.load_latest(tmp_path / checkpoints.FOLDER)
    assert saved
    assert saved.is_complete
    assert not saved.is_stopped


def test_train_initializations_are_stopped_after_search(small_dataset: data.Dataset, tmp_path: Path) -> None:
    """Two initializations are tried for two epochs each, and the best one continues for one epoch."""
    config = from_mapping(merge(SMALL, {"epochs": 12, "options": {"num_initializations": 2}}))
    asked: list[int] = []

    def should_stop(epoch: int) -> bool:
        asked.append(epoch)
        return epoch == 3

    history = train(config, small_dataset, tmp_path, should_stop=should_stop)
    assert (len(history), asked) == (3, [2, 3])


def test_train_damaged_checkpoint_warns_and_uses_previous(
    small_dataset: data.Dataset, small_config: ExperimentConfig, trained: Path, tmp_path: Path
) -> None:
    for epoch in (2, 3):
        copy_checkpoint(trained, epoch, tmp_path)
    newest = tmp_path / "checkpoints" / "epoch-000003.npz"
    newest.write_bytes(newest.read_bytes()[:-100])
    with logged_lines() as lines:
        history = train(small_config, small_dataset, tmp_path)
    (warning,) = (line for line in lines if "is damaged" in line)
    assert warning.endswith("epoch-000003.npz; the previous checkpoint is used")
    assert "continuing after epoch 2" in lines
    checkpoint = checkpoints.load_latest(trained / "checkpoints")
    assert checkpoint
    assert outcomes(history) == outcomes(checkpoint.history)


def test_train_in_locked_folder_raises(
    small_dataset: data.Dataset, small_config: ExperimentConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qcnn.atomic_files._LOCK_TIMEOUT_SECONDS", 0.2)
    with (
        exclusive_lock(tmp_path),
        pytest.raises(ArtifactError, match=r"^training: the folder must not be in use by another training"),
    ):
        train(small_config, small_dataset, tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_train_full_disk_raises_and_keeps_checkpoint(
    small_dataset: data.Dataset, small_config: ExperimentConfig, trained: Path, tmp_path: Path
) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], check=True)
    try:
        copy_checkpoint(trained, 2, tmp_path)
        filler = tmp_path / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(1024)):
                pass
        with pytest.raises(
            ArtifactError, match=r"^output: cannot be written \(No space left on device\). Given: "
        ) as error:
            train(small_config, small_dataset, tmp_path, logs=tmp_path.parent / "logs")
        assert "\n" not in str(error.value)
        assert not list(tmp_path.rglob(".unfinished-*"))
        filler.unlink()
        assert len(train(small_config, small_dataset, tmp_path, logs=tmp_path.parent / "logs")) == 3
    finally:
        subprocess.run(["umount", tmp_path], check=True)


@contextlib.contextmanager
def logged_lines() -> Iterator[list[str]]:
    """Collect log messages, for fixtures of module scope, which cannot use caplog."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("qcnn")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def test_steps_per_epoch_takes_the_first_batches_of_the_order(
    small_config: ExperimentConfig, small_dataset: data.Dataset, tmp_path: Path
) -> None:
    """The learning rate is constant, so the first updates do not depend on the number of all."""
    found = []
    for steps in (0, 2):
        options = small_config.options.model_copy(update={"steps_per_epoch": steps})
        config = small_config.model_copy(update={"options": options})
        folder = tmp_path / str(steps)
        training = TrainingState(config, small_dataset, folder, tf.distribute.get_strategy(), None, shared_programs())
        with batch_profile(range(0), None) as profile:
            epoch, measures = training.epoch(profile)
        found.append((training.updates, measures, epoch.train_loss))
    (every, all_measures, _), (few, measures, loss) = found
    assert (every, few) == (4, 2)
    np.testing.assert_array_equal(measures, all_measures[:2])
    assert loss == pytest.approx(measures[:, 0].mean(), rel=1e-12)
