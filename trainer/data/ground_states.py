"""Ground states of the cluster-Ising Hamiltonian, labelled by their phase, as in arXiv:1810.03787."""

import logging

import numpy as np
import numpy.typing as npt

from qcnn.trainer.config import ExperimentConfig
from qcnn.trainer.data.layout import Layout
from qcnn.trainer.data.randomness import FIELDS, random_units
from qcnn.trainer.data.samples import SPLITS, Dataset, Samples
from qcnn.trainer.quantum.cluster_ising import ground_state
from qcnn.trainer.quantum.phase_diagram import MOST_H1, MOST_H2, is_spt

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
    layout = Layout(config.preparation, amplitudes=2**config.qubits, known=("h1", "h2"))
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
