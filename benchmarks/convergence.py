"""Whether networks train with all defaults, at every size: python -m benchmarks.convergence [--rows hybrid-8,deep-12]."""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

from qcnn import data
from qcnn.circuits.error_bound import error_bound
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping
from qcnn.startup import load_tensorflow

SEEDS = range(5)
ROWS = {
    **{f"hybrid-{qubits}": ("hybrid", qubits) for qubits in (8, 16, 23, 64, 256, 1024)},
    **{f"deep-{qubits}": ("deep", qubits) for qubits in (8, 12, 16)},
}
# How far above its floor a network may end, on 10,000 fresh samples.
_NEAR = {"hybrid": 0.01, "deep": 0.02}
_NAMES = ("", "samples", "batch", "epochs", "updates", "starts", "above the floor, seeds 0 to 4", "near", "processor s")


def experiment(model: str, qubits: int, seed: int) -> ExperimentConfig:
    """Return the experiment of a row: its defaults, in one process, with checkpoints seldom."""
    words = {"model": model, "qubits": qubits, "seed": seed, "strategy": "none", "workers": 1}
    return from_mapping({**words, "options": {"checkpoint_seconds": 60, "profile_batches": ""}})


def distance(config: ExperimentConfig) -> tuple[float, float]:
    """Train; return how far above its floor the network ends on fresh samples, and the processor seconds it took."""
    from qcnn.model import checkpoints
    from qcnn.trainer.loop import train

    dataset, floor = data.generate(config), error_bound(config.model, config.hidden_activation)
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        train(config, dataset, Path(folder))
        seconds = time.process_time() - start
        checkpoint = checkpoints.load_latest(Path(folder, checkpoints.FOLDER))
    assert checkpoint
    assert checkpoint.fresh_mse is not None
    assert floor
    return checkpoint.fresh_mse - floor.mse, seconds


def row(model: str, qubits: int) -> list[object]:
    """Return a row of the table."""
    config = experiment(model, qubits, seed=0)
    results = [distance(experiment(model, qubits, seed)) for seed in SEEDS]
    distances = [found for found, _ in results]
    arrived = sum(found <= _NEAR[model] for found in distances)
    samples = config.split_counts.train
    updates = config.epochs * -(-samples // config.batch_size)
    words: list[object] = [samples, config.batch_size, config.epochs, updates, config.options.num_initializations]
    seconds = statistics.median(seconds for _, seconds in results)
    ends = " ".join(f"{found:+.4f}" for found in distances)
    return [f"{model}, n = {qubits}", *words, ends, f"{arrived} of {len(SEEDS)}", f"{seconds:.3g}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default=",".join(ROWS), help="which ones, by name, with commas between")
    rows = [ROWS[name] for name in parser.parse_args().rows.split(",")]
    load_tensorflow()
    near = ", ".join(f"{value} of {model}'s floor" for model, value in _NEAR.items())
    print(tabulate([row(model, qubits) for model, qubits in rows], _NAMES, "github", disable_numparse=True))
    print(f"\nnear: within {near}, on 10,000 fresh samples; processor s: of a training, compiling included")


if __name__ == "__main__":
    main()
