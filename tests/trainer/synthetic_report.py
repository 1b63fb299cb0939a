"""Report of a synthetic training run."""

from typing import Any

import numpy as np

from qcnn import data
from qcnn.experiment.config import ExperimentConfig
from qcnn.model.history import EpochMetrics
from qcnn.results.report import report_page


def report(
    qubits: int = 8, rounds: int = 3, epochs: int = 5, description: dict[str, Any] | None = None, **words: Any
) -> str:
    experiment = {**ExperimentConfig().model_dump(), "qubits": qubits, "rounds": rounds, "epochs": epochs, **words}
    samples = data.sample_excitations(qubits, rounds, seed=1)
    noise = np.random.default_rng(0)
    predictions = np.cos(samples.angle) + noise.normal(scale=0.2, size=len(samples))
    losses = 0.2 + np.exp(-np.arange(epochs) / 20) + noise.uniform(0, 0.05, (2, epochs))
    history = [
        EpochMetrics(epoch, train, 0.9, val, 0.8, 1.0) for epoch, (train, val) in enumerate(losses.T.tolist(), start=1)
    ]
    metrics = {"mse": 0.2716, "fresh_mse": 0.2361, "accuracy": 0.875, "train_loss": 0.1419, "val_loss": 0.2216}
    return report_page({"experiment": experiment, **(description or {})}, history, samples, predictions, metrics)
