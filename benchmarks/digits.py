"""Test accuracy for pairs of handwritten digits: python -m benchmarks.digits.

Trains examples/digits.yaml with both models on the splits of several seeds, and a logistic regression for comparison.
`--pairs 0-1,3-8` selects the digits.
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from tabulate import tabulate

from benchmarks.held_out import train_and_evaluate
from examples.digits import COMPONENTS, columns, write
from qcnn.process.library_loading import load_tensorflow
from qcnn.yaml_files import read_file

_EXAMPLE = Path(__file__).parents[1] / "examples" / "digits.yaml"
SEEDS = range(3)
MODELS = ("hybrid", "deep")


def linear_accuracy(first: int, second: int, seed: int) -> float:
    """Return the test accuracy of a logistic regression on the principal components.

    Args:
        first: First digit.
        second: Second digit.
        seed: Seed of the split.
    """
    table = columns(first, second, seed)
    features = np.stack([values for name, values in table.items() if name.startswith("component_")], axis=1)
    assert features.shape[1] == COMPONENTS
    train, test = (table["split"] == split for split in ("train", "test"))
    fitted = LogisticRegression().fit(features[train], table["label"][train])
    return float(fitted.score(features[test], table["label"][test]))


def network_accuracy(model: str, first: int, second: int, seed: int) -> float:
    """Return the test accuracy of a network on the same split.

    Args:
        model: "hybrid" or "deep".
        first: First digit.
        second: Second digit.
        seed: Seed of the split and of the initial weights.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "digits.csv")
        write(path, columns(first, second, seed))
        return train_and_evaluate(read_file(_EXAMPLE), data=str(path), model=model, seed=seed).metrics["accuracy"]


def _cell(accuracies: Sequence[float]) -> str:
    return f"{statistics.mean(accuracies):.3f} ({min(accuracies):.3f} to {max(accuracies):.3f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", default="0-1,3-8,4-9", help="Pairs of digits, separated by commas.")
    pairs = [tuple(map(int, pair.split("-"))) for pair in parser.parse_args().pairs.split(",")]
    load_tensorflow()
    rows = []
    for first, second in pairs:
        networks = [_cell([network_accuracy(model, first, second, seed) for seed in SEEDS]) for model in MODELS]
        rows.append(
            [f"{first} or {second}", *networks, _cell([linear_accuracy(first, second, seed) for seed in SEEDS])]
        )
    print(tabulate(rows, ["digits", *MODELS, "logistic regression"], "github", disable_numparse=True))


if __name__ == "__main__":
    main()
