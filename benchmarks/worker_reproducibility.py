"""Differences between runs with 1, 2 and 3 workers: python -m benchmarks.worker_reproducibility."""

import contextlib
import io
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tabulate import tabulate

from qcnn import data
from qcnn.components.steps.train_local import train
from qcnn.experiment.parsing import from_mapping
from qcnn.model import checkpoints

# Samples of all splits; a sampling round has 8.
SAMPLES = 160


def train_with(workers: int, samples: int, folder: Path) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Train with a number of workers.

    Args:
        workers: Number of training processes.
        samples: Number of training samples.
        folder: Folder for the dataset, checkpoints and logs.

    Returns:
        The losses (epochs, 2) and the weights in one dimension.
    """
    config = from_mapping(
        {"rounds": SAMPLES // 8, "workers": workers, "epochs": 50, "options": {"train_fraction": samples / SAMPLES}}
    )
    data.save(data.generate(config), folder / "dataset")
    with contextlib.redirect_stdout(io.StringIO()):
        train(config.to_json(), *(str(folder / name) for name in ("dataset", "training", "logs")))
    checkpoint = checkpoints.load_latest(folder / "training" / "checkpoints")
    assert checkpoint
    losses = np.array([[epoch.train_loss, epoch.val_loss] for epoch in checkpoint.history])
    return losses, np.concatenate([weights.ravel() for weights in checkpoint.line.weights])


def main() -> None:
    """Print the largest differences from one worker over 50 epochs, with full and partial last batches."""
    rows = []
    for samples in (112, 101, 97):
        with tempfile.TemporaryDirectory() as folder:
            losses, weights = train_with(1, samples, Path(folder, "1"))
            for workers in (2, 3):
                others = train_with(workers, samples, Path(folder, str(workers)))
                drift = np.abs(others[0] / losses - 1).max(), np.abs(others[1] - weights).max()
                rows.append([samples, workers, *(f"{value:.1e}" for value in drift)])
    print(tabulate(rows, ["training samples", "workers", "losses, relative", "weights"], disable_numparse=True))


if __name__ == "__main__":
    main()
