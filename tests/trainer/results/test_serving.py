"""The network without a simulator predicts what the network does."""

from typing import Any

import numpy as np
import pytest

from trainer import data
from trainer.config import ExperimentConfig, from_mapping
from trainer.model import build_model
from trainer.results.evaluate import predict
from trainer.results.serving import ServableModel, fresh_mse


def network(**words: Any) -> ExperimentConfig:
    return from_mapping({"rounds": 4, "workers": 1, "strategy": "none", **words})


@pytest.mark.parametrize(
    "config",
    [
        network(qubits=6),
        network(qubits=7, hidden_activation="tanh", hidden_units=3),
        network(qubits=6, model="deep"),
        network(qubits=30, simulator="window", hidden_activation="gelu"),
        network(qubits=5, simulator="tfq"),
    ],
    ids=["linear", "tanh", "one readout", "windows", "tfq"],
)
def test_predicts_as_the_network_does_for_any_sample(config: ExperimentConfig) -> None:
    model = build_model(config)
    samples = data.fresh(config.qubits, seed=3).take(np.arange(200))
    served = ServableModel(model)
    predictions = served.predict(samples.qubit, samples.angle)["prediction"].numpy()
    np.testing.assert_allclose(predictions, predict(model, samples), atol=1e-5)


def test_the_error_on_fresh_samples_is_of_the_weights_that_are_given() -> None:
    config = network(qubits=4, hidden_activation="tanh")
    model, other = build_model(config), build_model(config.model_copy(update={"seed": 9}))
    fresh = data.fresh(config.qubits, config.seed)
    weights = [variable.numpy() for variable in other.trainable_variables]
    for error, whose in ((fresh_mse(model, config), model), (fresh_mse(model, config, weights), other)):
        assert error == pytest.approx(np.mean((predict(whose, fresh) - fresh.label) ** 2), rel=1e-5)
