"""Size and creation time of reports: python -m benchmarks.report [FILE].

Writes the largest report to FILE.
"""

import sys
import time
from pathlib import Path

import numpy as np
from tabulate import tabulate

from qcnn import data
from qcnn.circuits.error_bound import ErrorBound
from qcnn.experiment.config import ExperimentConfig
from qcnn.model.history import EpochMetrics
from qcnn.results.report import report_page


def create_report(qubits: int, rounds: int, epochs: int) -> str:
    """Return the report of synthetic results: optimal predictions and decreasing losses, with noise.

    Args:
        qubits: Number of qubits.
        rounds: Samples per qubit.
        epochs: Number of epochs.
    """
    experiment = {**ExperimentConfig().model_dump(), "qubits": qubits, "rounds": rounds, "epochs": epochs}
    noise = np.random.default_rng(0)
    samples = data.sample_excitations(qubits, rounds, seed=0)
    predictions = ErrorBound(1.2).predict(samples.angle) + noise.normal(scale=0.1, size=len(samples))
    loss = 0.2 + np.exp(-np.arange(epochs) / 50) + noise.uniform(0, 0.02, (2, epochs))
    history = [
        EpochMetrics(epoch, train, 0.9, val, 0.9, 1.0) for epoch, (train, val) in enumerate(loss.T.tolist(), start=1)
    ]
    metrics = {"mse": 0.2, "accuracy": 0.9, "train_loss": history[-1].train_loss, "val_loss": history[-1].val_loss}
    return report_page({"experiment": experiment}, history, samples, predictions, metrics)


def main() -> None:
    """Print a row per report, with the number of test samples."""
    rows = []
    for qubits, rounds, epochs in ((8, 3, 50), (16, 100, 500), (1024, 3, 5000), (1024, 100, 5000)):
        start = time.perf_counter()
        report = create_report(qubits, rounds, epochs)
        rows.append((qubits, qubits * rounds, epochs, len(report.encode()) / 1e3, time.perf_counter() - start))
    print(tabulate(rows, ["qubits", "samples", "epochs", "size, kB", "seconds"], floatfmt=".2f"))
    for path in sys.argv[1:]:
        Path(path).write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
