"""Servable models predict the same as the trained network."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from qcnn import data
from qcnn.circuits.preparation import Preparation
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model.network import build_model
from qcnn.results.evaluate import predict
from qcnn.results.serving import ServableModel, exact_predictor, fresh_mse, servable_of


def network(**words: Any) -> ExperimentConfig:
    return from_mapping({"rounds": 4, "workers": 1, "strategy": "none", **words})


@pytest.mark.parametrize(
    "config",
    [
        network(qubits=6),
        network(qubits=7, hidden_activation="tanh", hidden_units=3),
        network(qubits=6, model="deep"),
        network(qubits=30, simulator="lightcone", hidden_activation="gelu"),
        pytest.param(network(qubits=5, simulator="tfq"), marks=pytest.mark.tfq),
    ],
    ids=["linear", "tanh", "one readout", "windows", "tfq"],
)
def test_servable_model_predicts_as_network(config: ExperimentConfig) -> None:
    model = build_model(config)
    samples = data.sample_fresh(config.qubits, seed=3).take(np.arange(200))
    served = ServableModel(model)
    predictions = served.predict(samples.qubit, samples.angle)["prediction"].numpy()
    np.testing.assert_allclose(predictions, predict(model, samples), atol=1e-5)


@pytest.mark.parametrize(
    ("offset", "width", "kind"),
    [
        (-1.0, 2.0, "float32"),
        (0.0, 1e-3, "float32"),
        (40.0, 2.0, "float32"),
        # Unix time within a minute, a constant with noise, and values beyond the range of float32.
        (1.7e9, 60.0, "float64"),
        (-7.0, 1e-8, "float64"),
        (1e60, 1e59, "float64"),
        (0.0, 1e-60, "float64"),
    ],
)
def test_servable_circuit_predicts_for_any_offset(offset: float, width: float, kind: str, tmp_path: Path) -> None:
    """The second feature fits in float32."""
    layout = data.FeatureLayout(Preparation("ry", 4), ("a", "b"), (offset, -1.0), (math.pi / width, math.pi / 2))
    config = network(qubits=4, data="rows.csv", encoding="ry", rounds=0, options={"max_samples": 40})
    model = build_model(config)
    servable = servable_of(model, config, layout)
    without_gradients = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    signatures = {"serving_default": servable.predict}
    tf.saved_model.save(servable, str(tmp_path), signatures=signatures, options=without_gradients)
    served = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    (spec,) = served.structured_input_signature[1].values()
    assert (spec.dtype.name, layout.row_type) == (kind, kind)
    shares = np.linspace(0, 1, 50)
    rows = np.stack([offset + shares * width, np.cos(9 * shares)], axis=1)
    found = served(features=tf.constant(rows, spec.dtype))["prediction"].numpy()
    # Expected angles by a formula, without rounding by the offset.
    angles = np.stack([math.pi * shares, math.pi / 2 * (rows[:, 1] + 1), 0 * shares, 0 * shares], axis=1)
    expected = exact_predictor(model)({"features": angles.astype(np.float32)})
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_fresh_mse_uses_given_weights() -> None:
    config = network(qubits=4, hidden_activation="tanh")
    model, other = build_model(config), build_model(config.model_copy(update={"seed": 9}))
    fresh = data.sample_fresh(config.qubits, config.seed)
    weights = [variable.numpy() for variable in other.trainable_variables]
    for error, whose in ((fresh_mse(model, config), model), (fresh_mse(model, config, weights), other)):
        assert error == pytest.approx(np.mean((predict(whose, fresh) - fresh.label) ** 2), rel=1e-5)
