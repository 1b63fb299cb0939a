"""Two of scikit-learn's handwritten digits as rows of eight features: python -m examples.digits --first 4 --second 9.

Without flags it writes examples/digits.csv, the data of digits.yaml.
"""

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

COMPONENTS = 8
# What of the images is trained on, and what the loss is watched with; the others are the test split.
_TRAIN, _VALIDATION = 0.6, 0.15


def columns(first: int, second: int, seed: int) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of the table: eight principal components, label (+1 for the first digit, else -1) and split.

    The components are those of the training split alone: nothing of the test split is known before it is predicted.
    """
    images, digits = load_digits(return_X_y=True)
    wanted = np.flatnonzero((digits == first) | (digits == second))
    wanted = wanted[np.argsort(np.random.PCG64(seed).random_raw(len(wanted)), kind="stable")]
    images, digits = images[wanted], digits[wanted]
    split = np.full(len(wanted), "test", dtype="<U10")
    train, validation = round(_TRAIN * len(wanted)), round(_VALIDATION * len(wanted))
    split[: train + validation] = "validation"
    split[:train] = "train"
    reduction = PCA(COMPONENTS, svd_solver="full").fit(images[:train])
    # Four digits of numbers up to 30: images have pixels from 0 to 16.
    components = {
        f"component_{number}": np.round(values, 4) for number, values in enumerate(reduction.transform(images).T, 1)
    }
    return {**components, "label": np.where(digits == first, 1, -1), "split": split}


def write(path: Path, table: dict[str, npt.NDArray[Any]]) -> None:
    """Write the table as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*(values.tolist() for values in table.values()), strict=True))


def main() -> None:
    """Write the file that the command line asks for."""
    parser = argparse.ArgumentParser(description="Writes two of scikit-learn's digits as rows of eight features.")
    parser.add_argument("--first", type=int, choices=range(10), default=3)
    parser.add_argument("--second", type=int, choices=range(10), default=8)
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("digits.csv"))
    given = parser.parse_args()
    write(given.output, columns(given.first, given.second, given.seed))


if __name__ == "__main__":
    main()
