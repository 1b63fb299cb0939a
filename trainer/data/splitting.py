"""How samples are shared out among training, validation and test."""

import numpy as np
import numpy.typing as npt

from qcnn.trainer.config import ExperimentConfig, SplitCounts
from qcnn.trainer.data.randomness import SPLIT, shuffled
from qcnn.trainer.data.samples import Samples


def split(samples: Samples, config: ExperimentConfig) -> tuple[Samples, Samples, Samples]:
    """Return the training, validation and test samples, shuffled: fixed by seed and number of samples alone."""
    train, validation, test = map(samples.take, parts(config.split_counts, config.seed))
    return train, validation, test


def parts(counts: SplitCounts, seed: int) -> list[npt.NDArray[np.int64]]:
    """Return the positions of the samples of training, validation and test."""
    mixed = shuffled(SPLIT, seed, counts.train + counts.validation + counts.test)
    return np.split(mixed, np.cumsum([counts.train, counts.validation]))
