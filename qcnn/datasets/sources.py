"""Training and test rows of each dataset, before any step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.circuits.chains import chain_of
from qcnn.circuits.chains.ground_states import ground_state
from qcnn.data.random_streams import DATASET_ROWS, permutation
from qcnn.datasets import idx
from qcnn.datasets.options import MAX_VALUES, DatasetOptions
from qcnn.datasets.patterns import bars_and_stripes, lines
from qcnn.errors import ConfigError

# Fraction of test rows of datasets without an official test set.
_TEST = 0.25
# Ratio of the radii of the circles.
_FACTOR = 0.5
# Upper bound of the square root of the columns of other generated rows.
_COLUMNS = 3


@dataclasses.dataclass(frozen=True)
class Rows:
    """Values, (rows, height, width) for images and (rows, columns) otherwise, and numbers of classes, (rows,)."""

    values: npt.NDArray[Any]
    classes: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.classes)

    def take(self, index: Any) -> Rows:
        """Return the rows of an index, in its order."""
        return Rows(self.values[index], self.classes[index])


@dataclasses.dataclass(frozen=True)
class SourceRows:
    """Training and test rows, and the SHA-256 of the files that they were read from."""

    train: Rows
    test: Rows
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)


def load(options: DatasetOptions) -> SourceRows:
    """Read or generate the training and test rows of a dataset.

    Official test rows stay test rows. Of a chain, training rows are the points of the grid on its training lines, and
    test rows are all points, in the order of the grid. Generated rows are in the order of their generator, the training
    rows first. All others are in an order that the seed determines.

    Args:
        options: Options of the dataset.

    Raises:
        ArtifactError: If a file is missing or damaged.
        ConfigError: If there are fewer rows than requested, or too many values.
    """
    if options.kind.is_generated:
        train, test = options.train_samples or 0, options.test_samples or 0
        _check_values("train_samples", train + test, (options.size or _COLUMNS) ** 2)
        rows = _generate(options, train + test)
        return SourceRows(_chosen(rows.take(slice(train)), options), _chosen(rows.take(slice(train, None)), options))
    if options.kind.has_files:
        return _from_files(options)
    return _ground_states(options) if options.kind.is_chain else _digits(options)


def _check_values(field: str, rows: int, columns: int) -> None:
    if rows * columns > MAX_VALUES:
        raise ConfigError(f"{field}: rows x columns must be at most {MAX_VALUES}. Given: {rows} x {columns}")


def _generate(options: DatasetOptions, count: int) -> Rows:
    noise, seed = options.noise or 0.0, options.seed
    match options.name:
        case "lines":
            return Rows(*lines(count, noise, seed))
        case "bars_and_stripes":
            return Rows(*bars_and_stripes(count, options.size or 0, noise, seed))
    from sklearn.datasets import make_circles, make_moons

    if options.name == "moons":
        return Rows(*make_moons(count, noise=noise, random_state=seed))
    return Rows(*make_circles(count, noise=noise, random_state=seed, factor=_FACTOR))


def _digits(options: DatasetOptions) -> SourceRows:
    from sklearn.datasets import load_digits

    images = load_digits()
    rows = _mixed(_chosen(Rows(images.images, images.target.astype(np.int64)), options), options.seed, 0)
    test = options.test_samples or round(_TEST * len(rows))
    if test >= len(rows):
        raise ConfigError(f"test_samples: must be 1 to {len(rows) - 1}, to leave a training row. Given: {test}")
    return SourceRows(_drawn(rows.take(slice(test, None)), options), rows.take(slice(test)))


def _ground_states(options: DatasetOptions) -> SourceRows:
    chain, size, qubits = chain_of(options.name), options.size or 0, options.qubits or 0
    _check_values("qubits", size**2, 2**qubits)
    axes = [parameter.scale(np.linspace(0, 1, size)) for parameter in chain.parameters]
    first, second = (values.ravel() for values in np.meshgrid(*axes, indexing="ij"))
    is_on_line = chain.on_training_lines(first, second)
    if not is_on_line.any():
        raise ConfigError(f"size: must give points on the training lines of {options.name}. Given: {size}")
    states = np.stack([ground_state(chain, qubits, *point).state for point in zip(first, second, strict=True)])
    every = Rows(states, chain.class_of(first, second))
    train = _mixed(_chosen(every.take(is_on_line), options), options.seed, 0)
    return SourceRows(train, _chosen(every, options))


def _from_files(options: DatasetOptions) -> SourceRows:
    folder, files, parts = options.source, {}, []
    assert folder is not None
    for number, (images, labels) in enumerate(zip(idx.IMAGES, idx.LABELS, strict=True)):
        values, files[images] = idx.read_images(folder, images)
        classes, files[labels] = idx.read_labels(folder, labels, len(values))
        rows = _chosen(Rows(values, classes.astype(np.int64)), options)
        for each in options.classes or options.kind.classes:
            if not (rows.classes == each).any():
                raise ConfigError(f"classes: each must have an image in {images}. Given: {each}")
        parts.append(_mixed(rows, options.seed, number))
    train, test = parts
    return SourceRows(_drawn(train, options), _first(test, options.test_samples, "test_samples"), files)


def _chosen(rows: Rows, options: DatasetOptions) -> Rows:
    return rows.take(np.isin(rows.classes, options.classes)) if options.classes else rows


def _mixed(rows: Rows, seed: int, stream: int) -> Rows:
    return rows.take(permutation(DATASET_ROWS, seed, len(rows), stream))


def _drawn(rows: Rows, options: DatasetOptions) -> Rows:
    """Return the training rows: the first ones, with balanced classes the first ones of each class in turns."""
    if options.balanced:
        found, number, counts = np.unique(rows.classes, return_inverse=True, return_counts=True)
        of_class = [np.flatnonzero(number == each)[: counts.min()] for each in range(len(found))]
        rows = rows.take(np.stack(of_class, axis=1).ravel())
    return _first(rows, options.train_samples, "train_samples")


def _first(rows: Rows, count: int | None, field: str) -> Rows:
    if count is not None and count > len(rows):
        raise ConfigError(f"{field}: must be 1 to {len(rows)}, the rows of these classes. Given: {count}")
    return rows.take(slice(count))
