"""Convergence of networks with default settings, by size: python -m benchmarks.convergence.

`--rows hybrid-8,deep-12` selects networks.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

from qcnn import data
from qcnn.circuits.error_bound import error_bound
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.model.history import initializations
from qcnn.process.library_loading import load_tensorflow

SEEDS = range(5)
ROWS = {
    **{f"hybrid-{qubits}": ("hybrid", qubits) for qubits in (8, 16, 23, 64, 256, 1024)},
    **{f"deep-{qubits}": ("deep", qubits) for qubits in (8, 12, 16)},
}
# Maximum excess over the MSE lower bound of a converged network, on 10,000 fresh samples.
_TOLERANCE = {"hybrid": 0.01, "deep": 0.02}
_HEADERS = (
    *("", "samples", "batch", "epochs", "updates", "initializations"),
    *("excess over the lower bound, seeds 0 to 4", "converged", "CPU s"),
)


def experiment(model: str, qubits: int, seed: int) -> ExperimentConfig:
    """Return an experiment with default settings, in one process and with few checkpoints.

    Args:
        model: "hybrid" or "deep".
        qubits: Number of qubits.
        seed: Seed of the data and the initial weights.
    """
    fields = {"model": model, "qubits": qubits, "seed": seed, "strategy": "none", "workers": 1}
    return from_mapping({**fields, "options": {"checkpoint_seconds": 60, "profile_batches": ""}})


def train_once(config: ExperimentConfig) -> tuple[float, float]:
    """Train, and return the excess of the fresh MSE over the lower bound and the CPU seconds."""
    from qcnn.model import checkpoints
    from qcnn.trainer.loop import train

    dataset, bound = data.generate(config), error_bound(config.model, config.hidden_activation)
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        train(config, dataset, Path(folder))
        seconds = time.process_time() - start
        checkpoint = checkpoints.load_latest(Path(folder, checkpoints.FOLDER))
    assert checkpoint
    assert checkpoint.fresh_mse is not None
    assert bound
    return checkpoint.fresh_mse - bound.mse, seconds


def row(model: str, qubits: int) -> list[object]:
    """Return a row of the table: the results of all seeds of a network."""
    config = experiment(model, qubits, seed=0)
    results = [train_once(experiment(model, qubits, seed)) for seed in SEEDS]
    excesses = [excess for excess, _ in results]
    converged = sum(excess <= _TOLERANCE[model] for excess in excesses)
    samples = config.split_counts.train
    updates = config.epochs * -(-samples // config.batch_size)
    settings: list[object] = [samples, config.batch_size, config.epochs, updates, initializations(config)]
    seconds = statistics.median(seconds for _, seconds in results)
    ends = " ".join(f"{excess:+.4f}" for excess in excesses)
    return [f"{model}, n = {qubits}", *settings, ends, f"{converged} of {len(SEEDS)}", f"{seconds:.3g}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default=",".join(ROWS), help="Names of the networks, separated by commas.")
    rows = [ROWS[name] for name in parser.parse_args().rows.split(",")]
    load_tensorflow()
    limits = ", ".join(f"{value} for {model}" for model, value in _TOLERANCE.items())
    print(tabulate([row(model, qubits) for model, qubits in rows], _HEADERS, "github", disable_numparse=True))
    print(f"\nConverged: excess of at most {limits}, on 10,000 fresh samples. CPU s: a training run with compilation.")


if __name__ == "__main__":
    main()
