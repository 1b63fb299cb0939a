"""Excited cluster states that are generated from a seed."""

import numpy as np
import numpy.typing as npt

from qcnn.data.random_streams import ANGLES, FRESH, random_units
from qcnn.data.samples import PI, Dataset, Samples, excitation_samples, split
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
