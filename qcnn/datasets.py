"""The samples of an experiment."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from qcnn.components.extras import explained
from qcnn.experiment import Experiment, checked
from qcnn.trainer import data
from qcnn.trainer.data import Dataset


@explained("qcnn.generate", "run")
def generate(experiment: Experiment, folder: str | PathLike[str] | None = None) -> Dataset:
    """Make the dataset of an experiment, the same wherever it is made; with a folder, which must be new, write it too.

    Raises:
        ArtifactError: the folder has content, or cannot be written.
        ConfigError: it is no experiment.

    >>> import qcnn
    >>> dataset = qcnn.generate(qcnn.Experiment(qubits=4, rounds=10, seed=7))
    >>> len(dataset.train), len(dataset.validation), len(dataset.test)
    (28, 6, 6)
    >>> dataset.train.qubit[:3].tolist(), dataset.train.label[:3].tolist()
    ([2, 3, 2], [-1, 1, -1])
    """
    dataset = data.generate(checked(experiment).config)
    if folder is not None:
        data.save(dataset, Path(folder))
    return dataset
