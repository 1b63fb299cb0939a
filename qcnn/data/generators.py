"""Samples drawn from a seed, bit-identical on every machine: excited cluster states, and ground states with a phase."""

import logging

import numpy as np
import numpy.typing as npt

from qcnn.circuits.cluster_ising import MOST_H1, MOST_H2, ground_state, is_spt
from qcnn.data.random_streams import ANGLES, FIELDS, FRESH, random_units
from qcnn.data.samples import PI, SPLITS, Dataset, FeatureLayout, Samples, excited, split
from qcnn.experiment import ExperimentConfig

FRESH_SAMPLES = 10_000


def generate_excitations(config: ExperimentConfig) -> Dataset:
    """Make the dataset of an experiment on excitations."""
    train, validation, test = split(sample_excitations(config.qubits, config.rounds, config.seed), config)
    return Dataset(train, validation, test, config.qubits, config.rounds, config.seed)


def label_of(angle: npt.NDArray[np.float32]) -> npt.NDArray[np.int8]:
    """Label +1 where |angle| <= pi/2, else -1 (TensorFlow Quantum's QCNN tutorial)."""
    return np.where(np.abs(angle) <= np.pi / 2, 1, -1).astype(np.int8)


def sample_excitations(qubits: int, rounds: int, seed: int) -> Samples:
    """Excite every qubit once a round with an angle uniform in [-pi, pi): rounds x qubits samples in that order."""
    angle = _angles(random_units(ANGLES, seed, rounds * qubits))
    qubit = np.tile(np.arange(qubits, dtype=np.int32), rounds)
    return excited(qubit, angle, label_of(angle))


def sample_fresh(qubits: int, seed: int) -> Samples:
    """Draw 10,000 samples that no experiment trains on: qubit and angle both uniform, of random bits of their own."""
    qubit = (qubits * random_units(FRESH, seed, FRESH_SAMPLES)).astype(np.int32)
    angle = _angles(random_units(FRESH, seed, FRESH_SAMPLES, stream=1))
    return excited(qubit, angle, label_of(angle))


def _angles(units: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return angles in [-pi, pi), float32, for numbers in [0, 1)."""
    angle = (2 * np.pi * units - np.pi).astype(np.float32)
    # Rounding to float32 may reach +pi, which is the same rotation but outside the interval.
    return np.where(angle >= PI, -PI, angle)


logger = logging.getLogger("qcnn")

# The root of x^3 = x + 1: multiples of its first two powers' inverses fill a square evenly, however many they are.
_PLASTIC = 1.324717957244746
_Floats = npt.NDArray[np.float64]


def generate_ground_states(config: ExperimentConfig) -> Dataset:
    """Make the dataset of an experiment on ground states: labels are +1 with SPT order, else -1.

    Training and validation samples are on the solvable line h2 = 0, those of the test on the whole phase diagram, so
    that its accuracy is the share of the diagram that is predicted right. The same seed gives the same bits on one
    machine; on another an amplitude may differ by `RESOLUTION`.
    """
    counts = config.split_counts
    logger.info("diagonalizing for %d ground states of %d qubits", config.rounds * config.qubits, config.qubits)
    train, validation, test = (
        _samples(config.qubits, *fields(split, config.seed, getattr(counts, split))) for split in SPLITS
    )
    layout = FeatureLayout(config.preparation, amplitudes=2**config.qubits, known=("h1", "h2"))
    return Dataset(train, validation, test, config.qubits, config.rounds, config.seed, layout)


def fields(split: str, seed: int, count: int) -> tuple[_Floats, _Floats]:
    """Return h1 and h2, (count,) each, of the samples of a split.

    On the line h1 is spaced evenly from 0 to MOST_H1 in training, and drawn at random for validation. The points of the
    test fill the diagram evenly, each as likely anywhere.
    """
    if split == "train":
        return np.linspace(0, MOST_H1, count), np.zeros(count)
    if split == "validation":
        return MOST_H1 * random_units(FIELDS, seed, count), np.zeros(count)
    shift, number = random_units(FIELDS, seed, 2, stream=1), np.arange(count)
    across, along = ((shift[i] + number / _PLASTIC ** (i + 1)) % 1 for i in range(2))
    return MOST_H1 * across, MOST_H2 * (2 * along - 1)


def _samples(qubits: int, h1: _Floats, h2: _Floats) -> Samples:
    state = np.stack([ground_state(qubits, *pair).state for pair in zip(h1.tolist(), h2.tolist(), strict=True)])
    label = np.where(is_spt(h1, h2), 1, -1).astype(np.int8)
    return Samples({"state": state}, label, {"h1": h1, "h2": h2})
