"""Samples: how a row of a table becomes one, what its label stands for, and all of a split as arrays."""

import dataclasses
import functools
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from qcnn.circuits.preparation import EXCITATION, Preparation
from qcnn.data.random_streams import SPLIT, permutation
from qcnn.experiment import ExperimentConfig, SplitCounts
from qcnn.frozen import frozen, frozen_array

# What stands in tables beside the columns of samples.
LABEL, PREDICTION, NOISE_ERROR = "label", "prediction", "noise_error"
# Angles of excitations are in [-pi, pi).
PI = np.float32(np.pi)
# NumPy rounds to powers of ten that are numbers.
_MOST_DIGITS = 300
# How far an angle may be off, in rad, by the type of the values that it is made of.
_LEAST_SEEN = 1e-5
Column: TypeAlias = npt.NDArray[np.float64]
# Of classes, -1 and +1 or 0 and 1; or real numbers.
Labels: TypeAlias = Literal["signs", "zero_one", "real"]


@dataclasses.dataclass(frozen=True)
class FeatureLayout:
    """How a row becomes a sample of a preparation, and with what kind of label a prediction is compared.

    Feature k turns qubit k by (value - offset k) x factor k, rad; qubits without a feature are not turned. A state has
    so many `amplitudes`. Samples that are generated have something `known` beside.
    """

    preparation: Preparation = EXCITATION
    features: tuple[str, ...] = ()
    offsets: tuple[float, ...] = ()
    factors: tuple[float, ...] = ()
    amplitudes: int = 0
    known: tuple[str, ...] = ()
    labels: Labels = "signs"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have, beside its labels."""
        match self.preparation.kind:
            case "excitation":
                return ("qubit", "angle")
            case "state":
                return tuple(f"state_{number}" for number in range(self.amplitudes))
        return self.features

    @property
    def is_regression(self) -> bool:
        """Whether labels are real numbers, of which there is no accuracy."""
        return self.labels == "real"

    @property
    def row_type(self) -> Literal["float32", "float64"]:
        """The type of rows from which angles follow: float64 where the spacing of float32 is seen in an angle."""
        with np.errstate(over="ignore", invalid="ignore"):
            for offset, factor in zip(self.offsets, self.factors, strict=True):
                largest = np.float32(max(abs(offset), abs(offset + math.pi / factor)))
                # Of what is beyond float32 the spacing is no number.
                if not np.spacing(largest) * factor <= _LEAST_SEEN:
                    return "float64"
        return "float32"

    def inputs(self, columns: Mapping[str, Column]) -> dict[str, npt.NDArray[Any]]:
        """Return what the model takes of rows, by the names of its inputs, each (rows, ...).

        Values must be allowed (`qcnn.data.file_data`).
        """
        match self.preparation.kind:
            case "excitation":
                angle = columns["angle"].astype(np.float32)
                # Rounding may reach +pi, which is the same rotation but outside the interval.
                return {"qubit": columns["qubit"].astype(np.int32), "angle": np.where(angle >= PI, -PI, angle)}
            case "state":
                return {"state": np.stack([columns[name] for name in self.columns], axis=1).astype(np.float32)}
        return {"features": self.turned([columns[name] for name in self.features])}

    def shown(self, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return what the table's columns held, of what the model takes, as far as float32 keeps it; no amplitudes."""
        match self.preparation.kind:
            case "excitation":
                return dict(inputs)
            case "state":
                return {}
        angles = inputs["features"].astype(np.float64).T
        scales = zip(self.features, angles, self.offsets, self.factors, strict=False)
        return {name: _turned_back(*scale) for name, *scale in scales}

    def turned(self, values: Sequence[Column]) -> npt.NDArray[np.float32]:
        """Return what every qubit is turned by, float32 (rows, qubits), rad, from the values of each feature."""
        angles = np.zeros((len(values[0]), self.preparation.features), np.float32)
        for number, (column, offset, factor) in enumerate(zip(values, self.offsets, self.factors, strict=True)):
            angles[:, number] = (column - offset) * factor
        return angles


def _turned_back(angles: Column, offset: float, factor: float) -> Column:
    """Return what a feature's angles were made of, rounded to what float32 kept of it: 0.1 stays 0.1."""
    if (offset, factor) == (0.0, 1.0):
        return angles.astype(np.float32).astype(str).astype(np.float64)
    # Of small angles float32 keeps more digits than those that the feature's other values have.
    kept = float(np.spacing(np.float32(max(1.0, np.abs(angles).max())))) / factor
    values, digits = angles / factor + offset, math.floor(-math.log10(kept))
    return np.round(values, digits) if digits <= _MOST_DIGITS else values


EXCITATIONS = FeatureLayout()
"""How excitations are read whose labels are -1 and +1, as those are that are drawn."""


@dataclasses.dataclass(frozen=True)
class Source:
    """A file that samples were read from: its path or address, and the SHA-256 of its bytes."""

    data: str
    sha256: str


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
    layout: FeatureLayout = EXCITATIONS
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
    mixed = permutation(SPLIT, seed, counts.train + counts.validation + counts.test)
    return np.split(mixed, np.cumsum([counts.train, counts.validation]))
