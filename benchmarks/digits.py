"""Two handwritten digits: how many of the test split are told apart, beside a linear classifier.

python -m benchmarks.digits [--pairs 0-1,3-8] trains examples/digits.yaml with both models on splits of several seeds.
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from tabulate import tabulate

from benchmarks.held_out import evaluated
from examples.digits import COMPONENTS, columns, write
from qcnn.experiment_io import read_file
from qcnn.startup import load_tensorflow

_EXAMPLE = Path(__file__).parents[1] / "examples" / "digits.yaml"
SEEDS = range(3)
MODELS = ("hybrid", "deep")


def linear(first: int, second: int, seed: int) -> float:
    """Return the accuracy of a logistic regression that is fitted to the training split's components."""
    table = columns(first, second, seed)
    features = np.stack([values for name, values in table.items() if name.startswith("component_")], axis=1)
    assert features.shape[1] == COMPONENTS
    train, test = (table["split"] == split for split in ("train", "test"))
    fitted = LogisticRegression().fit(features[train], table["label"][train])
    return float(fitted.score(features[test], table["label"][test]))


def network(model: str, first: int, second: int, seed: int) -> float:
    """Return the accuracy of a network on the same test split."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "digits.csv")
        write(path, columns(first, second, seed))
        return evaluated(read_file(_EXAMPLE), data=str(path), model=model, seed=seed).metrics["accuracy"]


def _cell(accuracies: Sequence[float]) -> str:
    return f"{statistics.mean(accuracies):.3f} ({min(accuracies):.3f} to {max(accuracies):.3f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", default="0-1,3-8,4-9", help="which digits, with commas between")
    pairs = [tuple(map(int, pair.split("-"))) for pair in parser.parse_args().pairs.split(",")]
    load_tensorflow()
    rows = []
    for first, second in pairs:
        networks = [_cell([network(model, first, second, seed) for seed in SEEDS]) for model in MODELS]
        rows.append([f"{first} or {second}", *networks, _cell([linear(first, second, seed) for seed in SEEDS])])
    print(tabulate(rows, ["digits", *MODELS, "logistic regression"], "github", disable_numparse=True))


if __name__ == "__main__":
    main()
