"""Samples as arrays, the layout that converts table rows to samples, and the split of a dataset."""

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
from qcnn.experiment.config import ExperimentConfig, SplitCounts
from qcnn.frozen import freeze, frozen_array

# Columns of tables in addition to the inputs of samples.
LABEL, PREDICTION, NOISE_ERROR = "label", "prediction", "noise_error"
# Beginning of the columns of predictions with the probabilities of classes.
PROBABILITY = "probability_"
# Column of predictions with the row of a sample in its data file, counted from 1.
ROW = "row"
# Angles of excitations are in [-pi, pi).
PI = np.float32(np.pi)
# numpy.round computes 10**digits, which must be finite.
_MAX_DIGITS = 300
# Maximum error of an angle, in rad, due to the dtype of the column values.
_MAX_ANGLE_ERROR = 1e-5
Column: TypeAlias = npt.NDArray[np.float64]
# Two classes -1 and +1, 0 and 1, or two names, as -1 and +1; real numbers; or two and more classes by number.
Labels: TypeAlias = Literal["signs", "zero_one", "names", "real", "classes"]


@dataclasses.dataclass(frozen=True)
class FeatureLayout:
    """Conversion of table rows to samples of a state preparation, and the type of their labels.

    Feature k rotates qubit k by (value - offset k) x factor k, in rad. Qubits without a feature are not rotated. For
    inputs of a circuit, it is this number.
    `amplitudes` is the number of amplitudes of a state, which are those of the row, or of its features divided by their
    norm. `known` names additional columns of generated samples.
    `classes` are the names of classes that have names, in order.
    """

    preparation: Preparation = EXCITATION
    features: tuple[str, ...] = ()
    offsets: tuple[float, ...] = ()
    factors: tuple[float, ...] = ()
    amplitudes: int = 0
    known: tuple[str, ...] = ()
    labels: Labels = "signs"
    classes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that a table must have in addition to the label."""
        match self.preparation.kind:
            case "excitation":
                return ("qubit", "angle")
            case "state" if not self.features:
                return tuple(f"state_{number}" for number in range(self.amplitudes))
        return self.features

    @property
    def row_input(self) -> str:
        """Name of the input of a SavedModel that takes whole rows."""
        return "features" if self.features else self.preparation.kind

    @property
    def rounded_columns(self) -> tuple[str, ...]:
        """Columns of a table that model inputs contain with the accuracy of float32 only."""
        return ("angle",) if self.preparation.kind == "excitation" else self.columns

    @property
    def is_regression(self) -> bool:
        """Whether labels are real numbers, for which accuracy is not defined."""
        return self.labels == "real"

    @property
    def is_classification(self) -> bool:
        """Whether labels are numbers of classes, for which predictions are probabilities."""
        return self.labels == "classes"

    @property
    def predicted_classes(self) -> tuple[str, ...]:
        """Names of the classes whose probabilities are predicted, none if predictions are numbers."""
        return self.classes if self.is_classification else ()

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes in order, none for a regression."""
        return () if self.is_regression else self.classes or ("-1", "+1")

    @property
    def row_type(self) -> Literal["float32", "float64"]:
        """Dtype of column values: float64 for inputs of circuits, or if float32 would change an angle by 1e-5 rad."""
        if self.preparation.kind == "circuit":
            return "float64"
        with np.errstate(over="ignore", invalid="ignore"):
            for offset, factor in zip(self.offsets, self.factors, strict=True):
                largest = np.float32(max(abs(offset), abs(offset + math.pi / factor)))
                # The spacing is NaN for values beyond the range of float32, hence `not <=` instead of `>`.
                if not np.spacing(largest) * factor <= _MAX_ANGLE_ERROR:
                    return "float64"
        return "float32"

    def inputs(self, columns: Mapping[str, Column]) -> dict[str, npt.NDArray[Any]]:
        """Return the model inputs of rows by input name, each (rows, ...).

        `qcnn.data.file_data.check` validates the values.
        """
        match self.preparation.kind:
            case "excitation":
                angle = columns["angle"].astype(np.float32)
                # Rounding may reach +pi, which is the same rotation but outside the interval.
                return {"qubit": columns["qubit"].astype(np.int32), "angle": np.where(angle >= PI, -PI, angle)}
            case "state":
                rows = np.stack([columns[name] for name in self.columns], axis=1)
                return {"state": self.states(rows) if self.features else rows.astype(np.float32)}
        return {"features": self.rotation_angles([columns[name] for name in self.features])}

    def recover_columns(self, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return the table columns of model inputs, to the accuracy of float32, without amplitudes of states."""
        match self.preparation.kind:
            case "excitation":
                return dict(inputs)
            case "state":
                return {}
        angles = inputs["features"].astype(np.float64).T
        scales = zip(self.features, angles, self.offsets, self.factors, strict=False)
        return {name: _feature_values(*scale) for name, *scale in scales}

    def states(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
        """Return the states of rows of features, float32 (rows, amplitudes): their values divided by their norm.

        Missing amplitudes are 0. The values are divided by the largest first, so that no square overflows.
        """
        scaled = rows / np.abs(rows).max(axis=1, keepdims=True)
        states = np.zeros((len(rows), self.amplitudes), np.float32)
        states[:, : rows.shape[1]] = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
        return states

    def rotation_angles(self, values: Sequence[Column]) -> npt.NDArray[np.floating[Any]]:
        """Return rotation angles in rad, float32 (rows, qubits), or inputs of a circuit, float64, of feature values."""
        dtype = np.float64 if self.preparation.kind == "circuit" else np.float32
        angles = np.zeros((len(values[0]), self.preparation.features), dtype)
        for number, (column, offset, factor) in enumerate(zip(values, self.offsets, self.factors, strict=True)):
            angles[:, number] = (column - offset) * factor
        return angles


def _feature_values(angles: Column, offset: float, factor: float) -> Column:
    """Return the feature values of angles, rounded to the accuracy of float32, so that 0.1 stays 0.1."""
    if (offset, factor) == (0.0, 1.0):
        return angles.astype(np.float32).astype(str).astype(np.float64)
    # The largest angle determines the digits: float32 has more digits for small angles than the feature values have.
    spacing = float(np.spacing(np.float32(max(1.0, np.abs(angles).max())))) / factor
    values, digits = angles / factor + offset, math.floor(-math.log10(spacing))
    return np.round(values, digits) if digits <= _MAX_DIGITS else values


EXCITATIONS = FeatureLayout()
"""Layout of excitations with labels -1 and +1, such as generated ones."""


@dataclasses.dataclass(frozen=True)
class Source:
    """Data file of a dataset: its path or URI, the SHA-256 of its bytes, and how `qcnn dataset` made it."""

    data: str
    sha256: str
    description: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        vars(self).update(description=freeze(self.description))


SPLITS = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True)
class Samples:
    """Model inputs by input name, each (samples, ...), and labels.

    Labels are int8 for classes, -1 and +1 or numbers from 0, and float64 for regression. `known` has additional
    columns, float64 (samples,), which are no model inputs. Mappings and arrays are read-only, because digests and
    metrics refer to them.

    For samples of a data file, `row` has their rows in the file, int32 (samples,), counted from 1, and `values` the
    columns of the file that model inputs round, float64 (samples,). Only test samples have `values`. Samples of
    datasets of earlier releases have neither.
    """

    inputs: Mapping[str, npt.NDArray[Any]]
    label: npt.NDArray[Any]
    known: Mapping[str, npt.NDArray[np.float64]] = dataclasses.field(default_factory=dict)
    row: npt.NDArray[np.int32] | None = None
    values: Mapping[str, npt.NDArray[np.float64]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        vars(self).update(inputs=freeze(self.inputs), label=frozen_array(self.label), known=freeze(self.known))
        vars(self).update(row=None if self.row is None else frozen_array(self.row), values=freeze(self.values))

    def __len__(self) -> int:
        return len(self.label)

    def take(self, index: npt.NDArray[np.int64]) -> "Samples":
        """Return the samples at the given indices, in that order."""
        inputs, known, values = (
            {name: column[index] for name, column in each.items()} for each in (self.inputs, self.known, self.values)
        )
        return Samples(inputs, self.label[index], known, None if self.row is None else self.row[index], values)

    @property
    def qubit(self) -> npt.NDArray[np.int32]:
        """Excited qubit of each excitation, int32."""
        return self.inputs["qubit"]

    @property
    def angle(self) -> npt.NDArray[np.float32]:
        """Angle of each excitation in [-pi, pi), float32, in rad."""
        return self.inputs["angle"]


def excitation_samples(
    qubit: npt.NDArray[np.int32], angle: npt.NDArray[np.float32], label: npt.NDArray[Any]
) -> Samples:
    """Return samples of excitations.

    Args:
        qubit: Excited qubit of each sample.
        angle: Angle of each sample in [-pi, pi), in rad.
        label: Label of each sample.
    """
    return Samples({"qubit": qubit, "angle": angle}, label)


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Training, validation and test samples with their provenance.

    `layout` converts table rows to samples of this form. `source` is the data file, or None for generated samples.
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
        """Yield the name and the samples of each split."""
        for name in SPLITS:
            yield name, getattr(self, name)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of all samples."""
        digest = hashlib.sha256()
        for _, samples in self.splits():
            for array in (*samples.inputs.values(), samples.label):
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def split(samples: Samples, config: ExperimentConfig) -> tuple[Samples, Samples, Samples]:
    """Return shuffled training, validation and test samples.

    The seed and the number of samples alone determine the order.
    """
    train, validation, test = map(samples.take, parts(config.split_counts, config.seed))
    return train, validation, test


def parts(counts: SplitCounts, seed: int) -> list[npt.NDArray[np.int64]]:
    """Return the indices of the training, validation and test samples."""
    mixed = permutation(SPLIT, seed, counts.train + counts.validation + counts.test)
    return np.split(mixed, np.cumsum([counts.train, counts.validation]))
