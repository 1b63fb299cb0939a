"""Datasets: sample generation, data files, dataset folders and random streams.

Excited cluster states are sampled from the seed and bit-identical on every machine. File samples are table rows.
"""

from qcnn.data.dataset import check_fits, describe, generate, load, load_or_generate, parse_description, save
from qcnn.data.file_data import read, resolve_files, warn_once, with_file_metadata
from qcnn.data.generators import FRESH_SAMPLES, label_of, sample_excitations, sample_fresh
from qcnn.data.random_streams import epoch_order, shot_seeds, start_seed, study_units, trajectory_units
from qcnn.data.samples import EXCITATIONS, SPLITS, Dataset, FeatureLayout, Samples, Source, excitation_samples

__all__ = [
    "EXCITATIONS",
    "FRESH_SAMPLES",
    "SPLITS",
    "Dataset",
    "FeatureLayout",
    "Samples",
    "Source",
    "check_fits",
    "describe",
    "epoch_order",
    "excitation_samples",
    "generate",
    "label_of",
    "load",
    "load_or_generate",
    "parse_description",
    "read",
    "resolve_files",
    "sample_excitations",
    "sample_fresh",
    "save",
    "shot_seeds",
    "start_seed",
    "study_units",
    "trajectory_units",
    "warn_once",
    "with_file_metadata",
]
