"""Samples and datasets, whatever state a sample is prepared in, and their split."""

import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qcnn.data.layout import EXCITATIONS, Layout, Source
from qcnn.data.random_streams import SPLIT, shuffled
from qcnn.experiment import ExperimentConfig, SplitCounts
from qcnn.frozen import frozen, frozen_array

SPLITS = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True)
class Samples:
    """Samples: what the model takes of them, by the names of its inputs, each (samples, ...), and their labels.

    Labels are int8, -1 or +1, of a classification, float64 of a regression. What else is `known` of them, float64
    (samples,) by name, no model is given. Mappings and arrays are read-only: a digest and metrics belong to them.
    """

    inputs: Mapping[str, npt.NDArray[Any]]
    label: npt.NDArray[Any]
    known: Mapping[str, npt.NDArray[np.float64]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        vars(self).update(inputs=frozen(self.inputs), label=frozen_array(self.label), known=frozen(self.known))

    def __len__(self) -> int:
        return len(self.label)

    def take(self, index: npt.NDArray[np.int64]) -> "Samples":
        """Return the samples at these positions, in this order."""
        inputs, known = ({name: values[index] for name, values in each.items()} for each in (self.inputs, self.known))
        return Samples(inputs, self.label[index], known)

    @property
    def qubit(self) -> npt.NDArray[np.int32]:
        """The excited qubits, int32, of samples that are excitations."""
        return self.inputs["qubit"]

    @property
    def angle(self) -> npt.NDArray[np.float32]:
        """Their angles in [-pi, pi), float32, rad."""
        return self.inputs["angle"]


def excited(qubit: npt.NDArray[np.int32], angle: npt.NDArray[np.float32], label: npt.NDArray[Any]) -> Samples:
    """Return samples that are excitations: the excited qubit, and its angle in [-pi, pi), rad."""
    return Samples({"qubit": qubit, "angle": angle}, label)


@dataclasses.dataclass(frozen=True)
class Dataset:
    """The three splits and what they were made from.

    `layout` says how a row of a table becomes a sample such as these; `source` is the file that they were read from.
    """

    train: Samples
    validation: Samples
    test: Samples
    qubits: int
    rounds: int
    seed: int
    layout: Layout = EXCITATIONS
    source: Source | None = None

    def splits(self) -> Iterator[tuple[str, Samples]]:
        """Yield each split with its name."""
        for name in SPLITS:
            yield name, getattr(self, name)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 over every sample: equal digests mean equal data."""
        digest = hashlib.sha256()
        for _, samples in self.splits():
            for array in (*samples.inputs.values(), samples.label):
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def split(samples: Samples, config: ExperimentConfig) -> tuple[Samples, Samples, Samples]:
    """Return the training, validation and test samples, shuffled: fixed by seed and number of samples alone."""
    train, validation, test = map(samples.take, parts(config.split_counts, config.seed))
    return train, validation, test


def parts(counts: SplitCounts, seed: int) -> list[npt.NDArray[np.int64]]:
    """Return the positions of the samples of training, validation and test."""
    mixed = shuffled(SPLIT, seed, counts.train + counts.validation + counts.test)
    return np.split(mixed, np.cumsum([counts.train, counts.validation]))
