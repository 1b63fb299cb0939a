"""The data: where samples come from, how a dataset is kept, and what is drawn at random.

Excited cluster states are drawn from the seed, bit-identical on every machine; rows of a file are read from it.
"""

from qcnn.data.dataset import check_fits, describe, described, generate, load, obtain, save
from qcnn.data.file_data import completed, files_read, read, warn_once
from qcnn.data.generators import FRESH_SAMPLES, draw, fresh, label_of
from qcnn.data.random_streams import order, shot_seeds, start_seed, study_units, trajectory_units
from qcnn.data.samples import EXCITATIONS, SPLITS, Dataset, Layout, Samples, Source, excited

__all__ = [
    "EXCITATIONS",
    "FRESH_SAMPLES",
    "SPLITS",
    "Dataset",
    "Layout",
    "Samples",
    "Source",
    "check_fits",
    "completed",
    "describe",
    "described",
    "draw",
    "excited",
    "files_read",
    "fresh",
    "generate",
    "label_of",
    "load",
    "obtain",
    "order",
    "read",
    "save",
    "shot_seeds",
    "start_seed",
    "study_units",
    "trajectory_units",
    "warn_once",
]
