"""The dataset: excited cluster states with a binary label, bit-identical for one seed on every machine."""

import dataclasses
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.config import ExperimentConfig
from trainer.descriptions import load_description, save_description
from trainer.errors import ArtifactError, given
from trainer.folders import new_folder, readable
from trainer.storage.copies import local_copy
from trainer.untrusted import open_arrays

FRESH_SAMPLES = 10_000
SPLITS = ("train", "validation", "test")
_ARRAYS = "dataset.npz"
_DESCRIPTION = "dataset.json"
# The most samples have 90 MB.
_MOST_BYTES = 2**27
_PI = np.float32(np.pi)

# One stream of random bits per purpose, so that no draw depends on how many another made.
_ANGLES, _SPLIT, _ORDER, _TRAIN_SHOTS, _VALIDATION_SHOTS, _TEST_SHOTS, _STUDY, _FRESH, _START = range(9)
_SHOTS = {"train": _TRAIN_SHOTS, "validation": _VALIDATION_SHOTS, "test": _TEST_SHOTS}


@dataclasses.dataclass(frozen=True)
class Samples:
    """One split: the excited qubit (int32), its angle in [-pi, pi) (float32, rad) and the label -1 or +1 (int8)."""

    qubit: npt.NDArray[np.int32]
    angle: npt.NDArray[np.float32]
    label: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.qubit)

    def take(self, index: npt.NDArray[np.int64]) -> "Samples":
        """Return the samples at these positions, in this order."""
        return Samples(self.qubit[index], self.angle[index], self.label[index])


@dataclasses.dataclass(frozen=True)
class Dataset:
    """The three splits and what they were made from."""

    train: Samples
    validation: Samples
    test: Samples
    qubits: int
    rounds: int
    seed: int

    def splits(self) -> Iterator[tuple[str, Samples]]:
        """Yield each split with its name."""
        for name in SPLITS:
            yield name, getattr(self, name)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 over every sample: equal digests mean equal data."""
        digest = hashlib.sha256()
        for _, samples in self.splits():
            for array in (samples.qubit, samples.angle, samples.label):
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def random_bits(purpose: int, seed: int, count: int, stream: int = 0) -> npt.NDArray[np.uint64]:
    """Return `count` random 64-bit words.

    Raw PCG64 output, because NumPy promises only that stream, not its distributions', across versions
    (NEP 19).
    """
    return np.random.PCG64(np.random.SeedSequence([purpose, seed, stream])).random_raw(count)


def random_units(purpose: int, seed: int, count: int, stream: int = 0) -> npt.NDArray[np.float64]:
    """Return `count` numbers uniform in [0, 1), float64."""
    return (random_bits(purpose, seed, count, stream) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def study_units(seed: int, count: int) -> list[float]:
    """Return the numbers in [0, 1) that the trials of a random search are drawn from; more begin with the same."""
    units: list[float] = random_units(_STUDY, seed, count).tolist()
    return units


def start_seed(seed: int, start: int) -> int:
    """Return the seed of the weights that a start begins with; the first begins with the experiment's own."""
    return int(random_bits(_START, seed, 1, stream=start)[0] >> np.uint64(33)) if start else seed


def label_of(angle: npt.NDArray[np.float32]) -> npt.NDArray[np.int8]:
    """Label +1 where |angle| <= pi/2, else -1 (TensorFlow Quantum's QCNN tutorial)."""
    return np.where(np.abs(angle) <= np.pi / 2, 1, -1).astype(np.int8)


def draw(qubits: int, rounds: int, seed: int) -> Samples:
    """Excite every qubit once a round with an angle uniform in [-pi, pi): rounds x qubits samples in that order."""
    angle = _angles(random_units(_ANGLES, seed, rounds * qubits))
    qubit = np.tile(np.arange(qubits, dtype=np.int32), rounds)
    return Samples(qubit, angle, label_of(angle))


def fresh(qubits: int, seed: int) -> Samples:
    """Draw 10,000 samples that no experiment trains on: qubit and angle both uniform, of random bits of their own."""
    qubit = (qubits * random_units(_FRESH, seed, FRESH_SAMPLES)).astype(np.int32)
    angle = _angles(random_units(_FRESH, seed, FRESH_SAMPLES, stream=1))
    return Samples(qubit, angle, label_of(angle))


def _angles(units: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return angles in [-pi, pi), float32, for numbers in [0, 1)."""
    angle = (2 * np.pi * units - np.pi).astype(np.float32)
    # Rounding to float32 may reach +pi, which is the same rotation but outside the interval.
    return np.where(angle >= _PI, -_PI, angle)


def order(seed: int, epoch: int, count: int) -> npt.NDArray[np.int64]:
    """Return the order of the training samples in an epoch: a permutation fixed by seed and epoch alone."""
    return np.argsort(random_bits(_ORDER, seed, count, stream=epoch), kind="stable")


def shot_seeds(split: str, seed: int, epoch: int, batches: int) -> npt.NDArray[np.int64]:
    """Return a seed for the shots of each batch of a split, (batches, 2): fixed by split, seed and epoch alone."""
    return random_bits(_SHOTS[split], seed, 2 * batches, stream=epoch).view(np.int64).reshape(batches, 2)


def generate(config: ExperimentConfig) -> Dataset:
    """Make the dataset of an experiment.

    >>> from trainer.config import from_mapping
    >>> dataset = generate(from_mapping({"qubits": 4, "rounds": 10, "seed": 7}))
    >>> len(dataset.train), len(dataset.validation), len(dataset.test)
    (28, 6, 6)
    >>> dataset.train.qubit[:3].tolist(), dataset.train.label[:3].tolist()
    ([2, 3, 2], [-1, 1, -1])
    """
    samples = draw(config.qubits, config.rounds, config.seed)
    shuffled = samples.take(np.argsort(random_bits(_SPLIT, config.seed, len(samples)), kind="stable"))
    counts = config.split_counts
    ends = np.cumsum([counts.train, counts.validation])
    train, validation, test = (shuffled.take(part) for part in np.split(np.arange(len(samples)), ends))
    return Dataset(train, validation, test, config.qubits, config.rounds, config.seed)


def save(dataset: Dataset, folder: Path) -> None:
    """Write dataset.npz and dataset.json into a new folder; a reader sees the whole or nothing."""
    arrays = {
        f"{name}_{field.name}": getattr(samples, field.name)
        for name, samples in dataset.splits()
        for field in dataclasses.fields(Samples)
    }
    description = {
        "qubits": dataset.qubits,
        "rounds": dataset.rounds,
        "seed": dataset.seed,
        "split": {name: len(samples) for name, samples in dataset.splits()},
        "digest": dataset.digest,
    }
    with new_folder(folder) as unfinished:
        np.savez(unfinished / _ARRAYS, **arrays)
        save_description(description, unfinished / _DESCRIPTION)


def load(folder: Path) -> Dataset:
    """Read and check a dataset folder.

    Raises:
        ArtifactError: a file is missing or damaged, the schema is another, or a value is out of range.
    """
    description = _load_description(folder / _DESCRIPTION)
    path = folder / _ARRAYS
    with readable("dataset", path), open_arrays(path, _MOST_BYTES) as arrays:
        splits = {
            name: Samples(*(_column(path, arrays, f"{name}_{field.name}") for field in dataclasses.fields(Samples)))
            for name in SPLITS
        }
    for name, samples in splits.items():
        _check(path, name, samples, description)
    train, validation, test = (splits[name] for name in SPLITS)
    dataset = Dataset(train, validation, test, *(description[key] for key in ("qubits", "rounds", "seed")))
    if dataset.digest != description.get("digest", dataset.digest):
        raise ArtifactError(f"dataset: {_ARRAYS} is damaged: {_DESCRIPTION} names other samples. Given: {path}")
    return dataset


def obtain(address: str | None, config: ExperimentConfig) -> Dataset:
    """Return the dataset at an address, or without one that of an experiment, which is the same wherever it is made."""
    if not address:
        return generate(config)
    with local_copy(address) as folder:
        return load(folder)


def check_fits(dataset: Dataset, config: ExperimentConfig) -> None:
    """Refuse a dataset that was made for another number of qubits.

    Raises:
        ArtifactError: the numbers of qubits differ.
    """
    if dataset.qubits != config.qubits:
        raise ArtifactError(
            f"dataset: must hold {config.qubits} qubits, as the experiment does. Given: {dataset.qubits} qubits"
        )


def _load_description(path: Path) -> dict[str, Any]:
    description = load_description("dataset", path)
    for key in ("qubits", "rounds", "seed"):
        if type(description.get(key)) is not int:
            raise ArtifactError(f"dataset: {key} must be an integer. Given: {given(description.get(key))} in {path}")
    return description


def _column(path: Path, arrays: Any, name: str) -> npt.NDArray[Any]:
    dtype = {"qubit": np.int32, "angle": np.float32, "label": np.int8}[name.rsplit("_", 1)[1]]
    if name not in arrays:
        raise ArtifactError(f"dataset: {name} is missing. Given: {path}")
    column: npt.NDArray[Any] = arrays[name]
    if column.dtype != dtype or column.ndim != 1:
        raise ArtifactError(
            f"dataset: {name} must be one row of {np.dtype(dtype)}. Given: {column.dtype}, shape {column.shape}"
        )
    return column


def _check(path: Path, name: str, samples: Samples, description: dict[str, Any]) -> None:
    split = description.get("split")
    expected = split.get(name) if isinstance(split, dict) else None
    if not len(samples.qubit) == len(samples.angle) == len(samples.label) == expected or not expected:
        raise ArtifactError(
            f"dataset: {name} must hold {expected} samples, at least 1, in each column. Given: "
            f"{len(samples.qubit)} / {len(samples.angle)} / {len(samples.label)} in {path}"
        )
    qubits = description["qubits"]
    for field, bad, what in (
        ("qubit", (samples.qubit < 0) | (samples.qubit >= qubits), f"in 0..{qubits - 1}"),
        ("angle", ~((samples.angle >= -_PI) & (samples.angle < _PI)), "in [-pi, pi)"),
        ("label", np.abs(samples.label) != 1, "-1 or +1"),
    ):
        if bad.any():
            value = getattr(samples, field)[bad][0]
            raise ArtifactError(f"dataset: {name}_{field} must be {what}. Given: {value} in {path}")
