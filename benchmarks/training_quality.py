"""How close training comes to the best possible error: python -m benchmarks.training_quality.

Beside each `hybrid` training stand two least-squares fits of a + b cos + c sin to the same training samples, one for
all qubits together (3 numbers) and one for each qubit apart (3 x 8): what that few samples tell about fresh ones.
"""

import statistics
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tabulate import tabulate

from trainer import data
from trainer.config import ExperimentConfig, from_mapping
from trainer.data import Samples
from trainer.quantum.floor import floor_of
from trainer.startup import load_tensorflow

FRESH_ROUNDS = 1250  # x 8 qubits = 10,000 samples
FRESH_SEED = 2**31
SEEDS = range(5)
# The defaults, and ten times the samples.
TRAININGS = (("hybrid", 20), ("deep", 20), ("hybrid", 200))


def features(samples: Samples, qubits: int) -> npt.NDArray[np.float64]:
    """Return 1, cos and sin of the angle, (samples, 3 * qubits), in the columns of the sample's qubit."""
    columns = np.stack([np.ones(len(samples)), np.cos(samples.angle), np.sin(samples.angle)], axis=1)
    own = samples.qubit[:, None] % qubits == np.arange(qubits)
    spread: npt.NDArray[np.float64] = (own[:, :, None] * columns[:, None, :]).reshape(len(samples), -1)
    return spread


def fitted(train: Samples, fresh: Samples, qubits: int) -> float:
    """Return the error on fresh samples of a least-squares fit; qubits=1 fits all qubits together."""
    weights, *_ = np.linalg.lstsq(features(train, qubits), train.label.astype(np.float64))
    return float(np.mean((features(fresh, qubits) @ weights - fresh.label) ** 2))


def measure(model: str, rounds: int, seed: int) -> list[float]:
    """Train and export with all defaults except `rounds`.

    Return the train loss, MSE and accuracy on fresh samples, and for hybrid both fits' MSE.
    """
    from trainer.results import evaluate, export
    from trainer.training.fit import train

    config = from_mapping({"model": model, "rounds": rounds, "seed": seed, "strategy": "none", "workers": 1})
    dataset, fresh = data.generate(config), data.draw(config.qubits, FRESH_ROUNDS, FRESH_SEED)
    with tempfile.TemporaryDirectory() as folder:
        workdir, exported = Path(folder, "training"), Path(folder, "model")
        history = train(config, dataset, workdir)
        export.export(workdir, exported)
        network, _ = export.load(exported)
        scores = evaluate.score(fresh, evaluate.predict(network, fresh))
    fits = [fitted(dataset.train, fresh, qubits) for qubits in ((1, config.qubits) if model == "hybrid" else ())]
    return [history[-1].train_loss, scores["mse"], scores["accuracy"], *fits]


def main() -> None:
    """Print one row a seed."""
    load_tensorflow()
    rows: list[list[object]] = []
    for model, rounds in TRAININGS:
        floor = floor_of(model, ExperimentConfig().hidden_activation)
        results = [measure(model, rounds, seed) for seed in SEEDS]
        least = floor.mse if floor else None
        rows += [[model, rounds, seed, least, *result] for seed, result in enumerate(results)]
        rows.append([model, rounds, "median", least, *map(statistics.median, zip(*results, strict=True))])
    names = ["model", "rounds", "seed", "floor", "train loss", "fresh MSE", "sign accuracy", "fit of 3", "fit of 24"]
    print(tabulate(rows, names, floatfmt=".4f"))


if __name__ == "__main__":
    main()
