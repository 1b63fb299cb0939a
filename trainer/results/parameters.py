"""The circuit and the quantum parameters of a model folder, without TensorFlow."""

import dataclasses
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt

from qcnn.trainer.config import ExperimentConfig
from qcnn.trainer.errors import ArtifactError
from qcnn.trainer.folders import readable
from qcnn.trainer.quantum.files.held import shown
from qcnn.trainer.quantum.fingerprint import fingerprint_of
from qcnn.trainer.results.description import describe
from qcnn.trainer.results.weights import checked_weights
from qcnn.trainer.simulators.structure.gates import Network, read_model

# Where Keras keeps what the quantum layer has learnt.
_PARAMETERS = "layers/quantum_layer/vars/0"


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained circuit: `values`, float64 (parameters,), are those of its symbols in turns of pi."""

    config: ExperimentConfig
    network: Network
    values: npt.NDArray[np.float64]


def load_trained(folder: Path) -> Trained:
    """Read the circuit of a model folder and what it has learnt.

    Raises:
        ArtifactError: a file is missing or damaged, or belongs to another model.
        ConfigError: the circuit cannot be built here.
    """
    description, config = describe(folder)
    weights = checked_weights(folder, description)
    with readable("model", weights), h5py.File(weights, "r") as file:
        values = np.asarray(file[_PARAMETERS], np.float64)
    _, network = read_model(config.model, config.qubits, config.preparation, config.noise_in_training)
    if description["circuit"] != fingerprint_of(config.model, network) or values.shape != (network.parameters,):
        raise ArtifactError(f"model: was trained with another circuit of that name. Given: {shown(config.model)}")
    return Trained(config, network, values)
