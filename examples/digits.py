"""Write scikit-learn's digits as rows of 8 features: python -m examples.digits --first 4 --second 9.

By default it writes examples/digits.csv, the data of digits.yaml, and with --all examples/ten_digits.csv.
"""

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

COMPONENTS = 8
# Fractions of the training and validation splits. The remaining images are the test split.
_TRAIN, _VALIDATION = 0.6, 0.15


def columns(first: int, second: int, seed: int) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of the table: 8 principal components, label and split.

    The PCA is fitted to the training split only, so no information of the test split is used.

    Args:
        first: Digit with the label +1.
        second: Digit with the label -1.
        seed: Seed of the split.
    """
    found = _columns((first, second), seed)
    return {**found, "label": np.where(found["label"] == first, 1, -1)}


def columns_of_all(seed: int) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of the table of all ten digits, whose labels are the digits."""
    return _columns(range(10), seed)


def _columns(chosen: Sequence[int], seed: int) -> dict[str, npt.NDArray[Any]]:
    images, digits = load_digits(return_X_y=True)
    wanted = np.flatnonzero(np.isin(digits, chosen))
    wanted = wanted[np.argsort(np.random.PCG64(seed).random_raw(len(wanted)), kind="stable")]
    images, digits = images[wanted], digits[wanted]
    split = np.full(len(wanted), "test", dtype="<U10")
    train, validation = round(_TRAIN * len(wanted)), round(_VALIDATION * len(wanted))
    split[: train + validation] = "validation"
    split[:train] = "train"
    reduction = PCA(COMPONENTS, svd_solver="full").fit(images[:train])
    # Pixels are between 0 and 16, and components below 30. Four decimals are sufficient.
    components = {
        f"component_{number}": np.round(values, 4) for number, values in enumerate(reduction.transform(images).T, 1)
    }
    return {**components, "label": digits, "split": split}


def write(path: Path, table: dict[str, npt.NDArray[Any]]) -> None:
    """Write the table as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*(values.tolist() for values in table.values()), strict=True))


def main() -> None:
    """Parse the command line and write the file."""
    parser = argparse.ArgumentParser(description="Write scikit-learn's digits as rows of 8 features.")
    parser.add_argument("--all", action="store_true", help="all ten digits instead of two")
    parser.add_argument("--first", type=int, choices=range(10), default=3)
    parser.add_argument("--second", type=int, choices=range(10), default=8)
    parser.add_argument("--seed", type=int, default=0, help="seed of the split")
    parser.add_argument("--output", type=Path, help="CSV file")
    arguments = parser.parse_args()
    if arguments.all:
        name, table = "ten_digits.csv", columns_of_all(arguments.seed)
    else:
        name, table = "digits.csv", columns(arguments.first, arguments.second, arguments.seed)
    write(arguments.output or Path(__file__).with_name(name), table)


if __name__ == "__main__":
    main()
