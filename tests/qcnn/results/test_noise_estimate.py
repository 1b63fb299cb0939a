"""Predictions from noise trajectories: correct standard errors, and sampling that depends only on the seed."""

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from qcnn import data, simulators
from qcnn.circuits import circuits
from qcnn.circuits.noise import parse
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model.network import assemble, build_model
from qcnn.results import evaluate, export, noise_estimate
from qcnn.results.noise_estimate import TrajectoryEstimate, predict_from_trajectories
from tests.shared_training_runs import train

NOISE = "depolarizing.one=0.01,depolarizing.two=0.03,amplitude_damping=0.02,readout=0.02"


@pytest.fixture
def few() -> ExperimentConfig:
    """Experiment with few qubits and trajectories, which is trained without noise."""
    words = {"qubits": 4, "rounds": 20, "batch_size": 8, "strategy": "none", "workers": 1}
    return from_mapping({**words, "options": {"trajectories": 60}})


def _predicted(config: ExperimentConfig, samples: data.Samples) -> tuple[TrajectoryEstimate, np.ndarray]:
    """Return the predictions of an untrained network, estimated from trajectories and exact by density matrices."""
    model = build_model(config)
    ansatz, ring = circuits.build("hybrid", 4), circuits.ring(4)
    exact = assemble(config, ansatz, simulators.create("density", ansatz, ring, config.limits, noise=parse(NOISE)))
    exact.set_weights(model.get_weights())
    return predict_from_trajectories(model, config, samples, parse(NOISE)), evaluate.predict(exact, samples)


def test_trajectory_estimate_agrees_with_density_matrices(few: ExperimentConfig) -> None:
    samples = data.sample_excitations(4, 5, seed=3)
    found, exact = _predicted(few, samples)
    away = (found.predictions - exact) / found.errors
    # Twenty approximately normal deviations with a common part.
    assert np.abs(away).max() < 3.5
    assert 0.5 < np.sqrt(np.mean(away**2)) < 1.6
    mse, exact_mse = (np.mean((values - samples.label) ** 2) for values in (found.predictions, exact))
    assert abs(mse - exact_mse) < 2.5 * found.mse_error
    assert found.mse_error < 0.2 * exact_mse


def test_trajectory_errors_scale_with_inverse_root_of_count(few: ExperimentConfig) -> None:
    samples = data.sample_excitations(4, 5, seed=3)
    more = few.model_copy(update={"options": few.options.model_copy(update={"trajectories": 240})})
    one, other = (_predicted(config, samples)[0].errors.mean() for config in (few, more))
    assert one / other == pytest.approx(2, rel=0.1)


def test_trajectory_estimate_does_not_depend_on_chunks(few: ExperimentConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = data.sample_excitations(4, 2, seed=3)
    one_chunk, _ = _predicted(few, samples)
    monkeypatch.setattr(noise_estimate, "_AMPLITUDES", 2**4 * 7)
    chunks, _ = _predicted(few, samples)
    for values, expected in zip(dataclasses.astuple(chunks), dataclasses.astuple(one_chunk), strict=True):
        np.testing.assert_allclose(values, expected, rtol=1e-9)
    # Another seed gives other trajectories.
    other, _ = _predicted(few.model_copy(update={"seed": 1}), samples)
    assert np.abs(other.predictions - one_chunk.predictions).min() > 1e-6


@pytest.mark.long
def test_evaluate_noise_above_10_qubits_has_noise_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    words = {"qubits": 11, "rounds": 2, "epochs": 1, "batch_size": 8, "strategy": "none", "workers": 1}
    options = {"noise": "depolarizing.two=0.01,readout=0.02", "trajectories": 5, "profile_batches": ""}
    config = from_mapping({**words, "options": options})
    dataset = data.generate(config)
    with caplog.at_level("INFO", logger="qcnn"):
        train(config, dataset, tmp_path / "training")
    assert "noise: training runs without noise, which requires at most 10 qubits" in caplog.messages
    export.export(tmp_path / "training", tmp_path / "model")
    found = evaluate.evaluate(tmp_path / "model", dataset)
    metrics = found.metrics
    assert 0 < metrics["noise_error"] < metrics["mse"]
    assert metrics["mse"] == pytest.approx(np.mean((found.predictions - dataset.test.label) ** 2))
    model, _ = export.load(tmp_path / "model")
    plain = evaluate.predict(model, dataset.test)
    assert metrics["exact_mse"] == pytest.approx(np.mean((plain - dataset.test.label) ** 2))
    assert np.abs(plain - found.predictions).max() > 1e-3
    assert evaluate.evaluate(tmp_path / "model", dataset).metrics == metrics
    evaluate.save_predictions(found, tmp_path / "predictions")
    with (tmp_path / "predictions" / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["noise_error"]) for row in rows] == found.errors.tolist()  # type: ignore[union-attr]
    tf.keras.backend.clear_session()
