"""Samples that are generated from a seed: excited cluster states, and ground states labelled by phase."""

import logging

import numpy as np
import numpy.typing as npt

from qcnn.circuits.chains.cluster_ising import MAX_H1, MAX_H2, ground_state, is_spt
from qcnn.data.random_streams import ANGLES, FIELDS, FRESH, random_units
from qcnn.data.samples import PI, SPLITS, Dataset, FeatureLayout, Samples, excitation_samples, split
from qcnn.experiment.config import ExperimentConfig

FRESH_SAMPLES = 10_000


def generate_excitations(config: ExperimentConfig) -> Dataset:
    """Generate the dataset of an experiment on excitations."""
    train, validation, test = split(sample_excitations(config.qubits, config.rounds, config.seed), config)
    return Dataset(train, validation, test, config.qubits, config.rounds, config.seed)


def label_of(angle: npt.NDArray[np.float32]) -> npt.NDArray[np.int8]:
    """Return the label +1 where |angle| <= pi/2, else -1 (TensorFlow Quantum's QCNN tutorial)."""
    return np.where(np.abs(angle) <= np.pi / 2, 1, -1).astype(np.int8)


def sample_excitations(qubits: int, rounds: int, seed: int) -> Samples:
    """Return rounds x qubits samples, in which every round excites each qubit once, in order.

    Args:
        qubits: Number of qubits.
        rounds: Number of rounds.
        seed: Seed of the angles, which are uniform in [-pi, pi).
    """
    angle = _angles(random_units(ANGLES, seed, rounds * qubits))
    qubit = np.tile(np.arange(qubits, dtype=np.int32), rounds)
    return excitation_samples(qubit, angle, label_of(angle))


def sample_fresh(qubits: int, seed: int) -> Samples:
    """Return 10,000 samples that no experiment trains on.

    Qubit and angle are uniform and come from separate random streams.
    """
    qubit = (qubits * random_units(FRESH, seed, FRESH_SAMPLES)).astype(np.int32)
    angle = _angles(random_units(FRESH, seed, FRESH_SAMPLES, stream=1))
    return excitation_samples(qubit, angle, label_of(angle))


def _angles(units: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return angles in [-pi, pi), float32, for numbers in [0, 1)."""
    angle = (2 * np.pi * units - np.pi).astype(np.float32)
    # Rounding to float32 may reach +pi, which is the same rotation but outside the interval.
    return np.where(angle >= PI, -PI, angle)


logger = logging.getLogger("qcnn")

# The root of x^3 = x + 1. Multiples of 1/x and 1/x^2, modulo 1, fill the unit square evenly for any number of points.
_PLASTIC = 1.324717957244746
_Floats = npt.NDArray[np.float64]


def generate_ground_states(config: ExperimentConfig) -> Dataset:
    """Generate the dataset of an experiment on ground states, labelled +1 with SPT order and else -1.

    Training and validation samples are on the solvable line h2 = 0. Test samples cover the whole phase diagram, so the
    test accuracy is the fraction of the diagram with correct predictions. The same seed gives the same bits on one
    machine. On different machines an amplitude may differ by `RESOLUTION`.
    """
    counts = config.split_counts
    logger.info("diagonalizing for %d ground states of %d qubits", config.rounds * config.qubits, config.qubits)
    train, validation, test = (
        _samples(config.qubits, *fields(split, config.seed, getattr(counts, split))) for split in SPLITS
    )
    layout = FeatureLayout(config.preparation, amplitudes=2**config.qubits, known=("h1", "h2"))
    return Dataset(train, validation, test, config.qubits, config.rounds, config.seed, layout)


def fields(split: str, seed: int, count: int) -> tuple[_Floats, _Floats]:
    """Return h1 and h2 of the samples of a split, float64 (count,) each.

    On the line h2 = 0, h1 is spaced evenly from 0 to MAX_H1 for training, and uniformly random for validation. Test
    points fill the diagram evenly, and the distribution of each point is uniform.

    Args:
        split: Name of the split.
        seed: Seed of the validation and test points.
        count: Number of samples.
    """
    if split == "train":
        return np.linspace(0, MAX_H1, count), np.zeros(count)
    if split == "validation":
        return MAX_H1 * random_units(FIELDS, seed, count), np.zeros(count)
    shift, number = random_units(FIELDS, seed, 2, stream=1), np.arange(count)
    across, along = ((shift[i] + number / _PLASTIC ** (i + 1)) % 1 for i in range(2))
    return MAX_H1 * across, MAX_H2 * (2 * along - 1)


def _samples(qubits: int, h1: _Floats, h2: _Floats) -> Samples:
    state = np.stack([ground_state(qubits, *pair).state for pair in zip(h1.tolist(), h2.tolist(), strict=True)])
    label = np.where(is_spt(h1, h2), 1, -1).astype(np.int8)
    return Samples({"state": state}, label, {"h1": h1, "h2": h2})
