"""Excited cluster states with a binary label, bit-identical for one seed on every machine."""

import numpy as np
import numpy.typing as npt

from qcnn.trainer.config import ExperimentConfig
from qcnn.trainer.data.layout import PI
from qcnn.trainer.data.randomness import ANGLES, FRESH, random_units
from qcnn.trainer.data.samples import Dataset, Samples, excited
from qcnn.trainer.data.splitting import split

FRESH_SAMPLES = 10_000


def generate_excitations(config: ExperimentConfig) -> Dataset:
    """Make the dataset of an experiment on excitations."""
    train, validation, test = split(draw(config.qubits, config.rounds, config.seed), config)
    return Dataset(train, validation, test, config.qubits, config.rounds, config.seed)


def label_of(angle: npt.NDArray[np.float32]) -> npt.NDArray[np.int8]:
    """Label +1 where |angle| <= pi/2, else -1 (TensorFlow Quantum's QCNN tutorial)."""
    return np.where(np.abs(angle) <= np.pi / 2, 1, -1).astype(np.int8)


def draw(qubits: int, rounds: int, seed: int) -> Samples:
    """Excite every qubit once a round with an angle uniform in [-pi, pi): rounds x qubits samples in that order."""
    angle = _angles(random_units(ANGLES, seed, rounds * qubits))
    qubit = np.tile(np.arange(qubits, dtype=np.int32), rounds)
    return excited(qubit, angle, label_of(angle))


def fresh(qubits: int, seed: int) -> Samples:
    """Draw 10,000 samples that no experiment trains on: qubit and angle both uniform, of random bits of their own."""
    qubit = (qubits * random_units(FRESH, seed, FRESH_SAMPLES)).astype(np.int32)
    angle = _angles(random_units(FRESH, seed, FRESH_SAMPLES, stream=1))
    return excited(qubit, angle, label_of(angle))


def _angles(units: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return angles in [-pi, pi), float32, for numbers in [0, 1)."""
    angle = (2 * np.pi * units - np.pi).astype(np.float32)
    # Rounding to float32 may reach +pi, which is the same rotation but outside the interval.
    return np.where(angle >= PI, -PI, angle)
