"""How close a default training comes to the best possible error: python -m benchmarks.training_quality [MODEL...]."""

import statistics
import sys
import tempfile
from pathlib import Path

from tabulate import tabulate

from trainer import data
from trainer.config import from_mapping
from trainer.startup import load_tensorflow

FRESH_ROUNDS = 1250  # x 8 qubits = 10,000 samples
FRESH_SEED = 2**31
SEEDS = range(5)
# Best mean squared error of a + b cos + c sin of the angle against the label: 1 - 8/pi^2 with b = 4/pi,
# and 3/2 - 4/pi where |output| <= 1 holds b at 1.
FLOORS = {"hybrid": 0.1894, "deep": 0.2268}


def measure(model: str, seed: int, rounds: int, epochs: int) -> tuple[float, float, float]:
    """Train, export and return the train loss, and MSE and sign accuracy on fresh samples."""
    from trainer import evaluate, export
    from trainer.fit import train

    config = from_mapping(
        {"model": model, "seed": seed, "rounds": rounds, "epochs": epochs, "strategy": "none", "workers": 1}
    )
    fresh = data.draw(config.qubits, FRESH_ROUNDS, FRESH_SEED)
    with tempfile.TemporaryDirectory() as folder:
        workdir, exported = Path(folder, "training"), Path(folder, "model")
        history = train(config, data.generate(config), workdir)
        export.export(workdir, exported)
        network, _ = export.load(exported)
        scores = evaluate.score(fresh, evaluate.predict(network, fresh))
    return history[-1].train_loss, scores["mse"], scores["accuracy"]


def main() -> None:
    """Print one row a seed, for the tutorial's 20 rounds."""
    load_tensorflow()
    models = sys.argv[1:] or list(FLOORS)
    rows: list[list[object]] = []
    for model in models:
        results = [measure(model, seed, rounds=20, epochs=50) for seed in SEEDS]
        rows += [
            [model, seed, loss, mse, FLOORS[model], accuracy] for seed, (loss, mse, accuracy) in enumerate(results)
        ]
        rows.append([model, "median", None, statistics.median(mse for _, mse, _ in results), FLOORS[model], None])
    print(tabulate(rows, ["model", "seed", "train loss", "fresh MSE", "floor", "sign accuracy"], floatfmt=".4f"))


if __name__ == "__main__":
    main()
