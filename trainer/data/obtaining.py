"""The dataset of an experiment: made, or brought from where it is kept."""

from qcnn.trainer.config import CLUSTER_ISING, ExperimentConfig
from qcnn.trainer.data.cluster_states import generate_excitations
from qcnn.trainer.data.own import read
from qcnn.trainer.data.samples import Dataset
from qcnn.trainer.data.saving import load
from qcnn.trainer.storage.copies import local_copy


def generate(config: ExperimentConfig) -> Dataset:
    """Make the dataset of an experiment.

    >>> from qcnn.trainer.config import from_mapping
    >>> dataset = generate(from_mapping({"qubits": 4, "rounds": 10, "seed": 7}))
    >>> len(dataset.train), len(dataset.validation), len(dataset.test)
    (28, 6, 6)
    >>> dataset.train.qubit[:3].tolist(), dataset.train.label[:3].tolist()
    ([2, 3, 2], [-1, 1, -1])
    """
    if config.is_file:
        return read(config)
    if config.data == CLUSTER_ISING:
        # SciPy is not where only others are made.
        from qcnn.trainer.data.ground_states import generate_ground_states

        return generate_ground_states(config)
    return generate_excitations(config)


def obtain(address: str | None, config: ExperimentConfig) -> Dataset:
    """Return the dataset at an address, or without one that of an experiment, which is the same wherever it is made."""
    if not address:
        return generate(config)
    with local_copy(address) as folder:
        return load(folder)
