"""Content of TensorBoard events. `tests/qcnn/cli/test_tensorboard.py` tests with a real TensorBoard."""

import dataclasses
import logging
import resource
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from qcnn import data
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.model import checkpoints
from qcnn.model.batches import Shards
from qcnn.model.history import EpochMetrics
from qcnn.model.network import build_model
from qcnn.model.optimizer import assign
from qcnn.model.steps import Measures
from qcnn.trainer.programs import Program
from qcnn.trainer.tensorboard import batch_profile, event_log, serve_profiles
from tests.shared_training_runs import train
from tests.tensorboard_server import scalars, tensors


def _with_options(config: ExperimentConfig, **options: Any) -> ExperimentConfig:
    return config.model_copy(update={"options": config.options.model_copy(update=options)})


def _losses(history: tuple[EpochMetrics, ...]) -> list[tuple[float, ...]]:
    return [dataclasses.astuple(dataclasses.replace(epoch, seconds=0.0)) for epoch in history]


def test_events_have_parameters_and_learning_rate_by_update(small_config: ExperimentConfig, trained: Path) -> None:
    checkpoint = checkpoints.load_latest(trained / "checkpoints")
    assert checkpoint
    logged = scalars(trained / "logs" / "train")
    # 28 samples in batches of 8 give 4 updates per epoch.
    assert all(list(values) == [4, 8, 12] for values in logged.values())
    assert logged["learning_rate"][12] == pytest.approx(small_config.learning_rate)
    assert [logged[f"parameters/s{index}"][12] for index in range(21)] == pytest.approx(
        checkpoint.line.weights[0].tolist()
    )
    assert not [tag for tag in logged if tag.startswith("batch/")]


def test_events_have_staleness_of_asynchronous_epochs(
    small_dataset: data.Dataset, small_config: ExperimentConfig, tmp_path: Path
) -> None:
    program = Program(small_config, tf.distribute.get_strategy(), 12)
    measures = np.array([[0.5, 0.5, 1.0, 2.0]])
    with event_log(
        tmp_path, small_config, program.model, program.optimizer, small_dataset.validation, is_chief=True
    ) as events:
        assert events
        events.epoch(EpochMetrics(1, 0.5, 0.5, 0.5, 0.5, 1.0), measures[:, :3], 4)
        events.epoch(EpochMetrics(2, 0.5, 0.5, 0.5, 0.5, 1.0, staleness=0.75, largest_staleness=2), measures, 8)
    logged = scalars(tmp_path / "train")
    assert (logged["staleness"], logged["largest_staleness"]) == ({8: 0.75}, {8: 2.0})


def test_events_gradient_norm_is_that_of_batch_loss(
    small_dataset: data.Dataset, small_config: ExperimentConfig, tmp_path: Path
) -> None:
    config = small_config.model_copy(update={"epochs": 1, "batch_size": len(small_dataset.train)})
    train(config, small_dataset, tmp_path)
    model, samples = build_model(config), small_dataset.train
    with tf.GradientTape() as tape:
        errors = model(dict(samples.inputs))[:, 0] - samples.label.astype(np.float64)
        loss = tf.reduce_mean(errors**2)
    gradients = [gradient.numpy().ravel() for gradient in tape.gradient(loss, model.trainable_variables)]
    norm = scalars(tmp_path / "logs" / "train")["gradient_norm"][1]
    assert norm == pytest.approx(np.linalg.norm(np.concatenate(gradients)), rel=1e-4)


def test_events_file_size_limit_raises_one_line(
    small_dataset: data.Dataset, small_config: ExperimentConfig, tmp_path: Path
) -> None:
    """TensorFlow's error would only report a failed flush."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20 * 1024, hard))
    try:
        with pytest.raises(ArtifactError) as error:
            train(small_config, small_dataset, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
    limit = "the file size limit of this process is 20480 bytes, see ulimit -f"
    assert str(error.value) == f"logs: cannot be written ({limit}). Given: {tmp_path / 'logs'}"


def test_events_histograms_are_of_validation_readouts(
    small_dataset: data.Dataset, small_config: ExperimentConfig, trained: Path
) -> None:
    checkpoint = checkpoints.load_latest(trained / "checkpoints")
    assert checkpoint
    model = build_model(small_config)
    assign(model.trainable_variables, checkpoint.line.weights)
    split = small_dataset.validation
    expected = model.get_layer("quantum").strings(split.inputs)[0].numpy()
    logged = tensors(trained / "logs" / "validation", "histograms")
    assert list(logged) == ["readouts/q(0, 2)", "readouts/q(0, 3)"]
    for buckets, column in zip(logged.values(), expected.T, strict=True):
        assert buckets[:, 2].sum() == len(split) == 6
        assert (buckets[0, 0], buckets[-1, 1]) == pytest.approx((column.min(), column.max()))


def test_events_have_circuit_and_graph(trained: Path) -> None:
    logs = trained / "logs"
    text = tensors(logs, "text")["circuit/text"].item()
    assert "4 qubits, 21 parameters, 2 readouts" in text.decode()
    assert "Z^(-s17)" in text.decode()
    assert tensors(logs, "images")["circuit/image"][2].startswith(b"\x89PNG")
    graphs = [
        record.graph_def
        for path in (logs / "train").glob("events.*")
        for record in tf.compat.v1.train.summary_iterator(str(path))
        if record.graph_def
    ]
    assert b"qcnn/quantum/" in graphs[0]


def test_logging_options_do_not_change_training(
    small_dataset: data.Dataset, small_config: ExperimentConfig, trained: Path, tmp_path: Path
) -> None:
    checkpoint = checkpoints.load_latest(trained / "checkpoints")
    assert checkpoint
    assert (small_config.options.profile_batches, small_config.options.log_every) == ("", "epoch")
    # The range starts and ends within an epoch, and spans two epochs.
    verbose = _with_options(small_config, profile_batches="2-7", log_every="batch")
    assert _losses(train(verbose, small_dataset, tmp_path)) == _losses(checkpoint.history)
    saved = checkpoints.load_latest(tmp_path / "checkpoints")
    assert saved
    assert all(np.array_equal(*pair) for pair in zip(saved.line.weights, checkpoint.line.weights, strict=True))
    assert not list(trained.rglob("*.xplane.pb"))
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 1
    logged = scalars(tmp_path / "logs" / "train")
    for measure in ("loss", "accuracy", "gradient_norm"):
        assert list(logged[f"batch/{measure}"]) == list(range(1, 13))
    # The last batch has 4 of 28 samples.
    weighted = np.average([logged["batch/loss"][step] for step in (1, 2, 3, 4)], weights=[8, 8, 8, 4])
    assert weighted == pytest.approx(logged["loss"][4], rel=1e-6)


@pytest.mark.parametrize(("batches", "is_logged"), [("12-20", False), ("13-20", True), ("", False)])
def test_profile_batches_after_last_batch_is_logged(
    small_dataset: data.Dataset,
    small_config: ExperimentConfig,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    batches: str,
    is_logged: bool,
) -> None:
    with caplog.at_level(logging.INFO, "qcnn"):
        train(_with_options(small_config, profile_batches=batches), small_dataset, tmp_path)
    line = f"profile_batches: no profile is taken, because the last batch is 12. Given: {batches}"
    assert (line in caplog.messages) is is_logged
    assert is_logged or bool([*tmp_path.rglob("*.xplane.pb")]) is bool(batches)


def test_events_of_resumed_training_have_every_step_once(continued: Path) -> None:
    for run in ("train", "validation"):
        assert list(scalars(continued / "logs" / run)["loss"]) == [4, 8, 12]


_STEPS = 4


def _shards() -> Shards:
    empty = np.zeros((_STEPS, 1, 1))
    return Shards({"angle": empty.astype(np.float32)}, empty, empty, np.ones(_STEPS, np.int64))


@pytest.mark.parametrize(
    ("batches", "cuts"),
    [
        (range(0), [[(0, 4)], [(0, 4)], [(0, 4)]]),
        (range(5, 6), [[(0, 4)], [(0, 1), (1, 2), (2, 4)], [(0, 4)]]),
        (range(3, 10), [[(0, 3), (3, 4)], [(0, 4)], [(0, 2), (2, 4)]]),
        (range(4, 8), [[(0, 4)], [(0, 4)], [(0, 4)]]),
        (range(50, 60), [[(0, 4)], [(0, 4)], [(0, 4)]]),
    ],
)
def test_batch_profile_splits_epochs_at_range(batches: range, cuts: list[list[tuple[int, int]]]) -> None:
    calls: list[tuple[int, int]] = []

    def run(shards: Shards, part: range | None = None) -> Measures:
        assert part
        calls.append((part.start, part.stop))
        return np.array(part, np.float64)[:, None]

    with batch_profile(batches, None) as profile:
        for epoch, expected in enumerate(cuts):
            calls.clear()
            assert profile.run(run, _shards(), epoch * _STEPS)[:, 0].tolist() == [0, 1, 2, 3]
            assert calls == expected


def test_serve_profiles_used_port_raises_only_if_required(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, caplog.at_level(logging.WARNING, "qcnn"):
        port = server.getsockname()[1]
        serve_profiles(port)
        assert "training continues without profiler server: profiler_port: cannot be used" in caplog.text
        with pytest.raises(ConfigError, match=rf"^profiler_port: cannot be used .*Given: {port}$"):
            serve_profiles(port, required=True)
