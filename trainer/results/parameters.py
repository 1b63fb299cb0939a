"""The circuit and the quantum parameters of a model folder, without TensorFlow."""

import dataclasses
import hashlib
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt

from trainer.config import ExperimentConfig, from_saved
from trainer.descriptions import load_description
from trainer.errors import ArtifactError
from trainer.folders import readable
from trainer.quantum.files.held import shown
from trainer.quantum.fingerprint import fingerprint_of
from trainer.results.weights import check_weights
from trainer.simulators.structure.gates import Network, read_model
from trainer.untrusted import check_size

# Of the model folder (trainer.results.export), and where Keras keeps what the quantum layer has learnt.
_DESCRIPTION, _WEIGHTS = "model.json", "qcnn.weights.h5"
_PARAMETERS = "layers/quantum_layer/vars/0"
_MOST_BYTES = 2**28


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
    path, weights = folder / _DESCRIPTION, folder / _WEIGHTS
    description = load_description("model", path)
    with readable("model", path):
        config = from_saved(description["experiment"])
        circuit, digest = str(description["circuit"]), str(description["weights_sha256"])
    with readable("model", weights):
        check_size(weights, _MOST_BYTES)
        if hashlib.sha256(weights.read_bytes()).hexdigest() != digest:
            raise ValueError(f"{_DESCRIPTION} names other weights")
        check_weights(weights, _MOST_BYTES)
        with h5py.File(weights, "r") as file:
            values = np.asarray(file[_PARAMETERS], np.float64)
    _, network = read_model(config.model, config.qubits, config.preparation, config.noise_in_training)
    if circuit != fingerprint_of(config.model, network) or values.shape != (network.parameters,):
        raise ArtifactError(f"model: was trained with another circuit of that name. Given: {shown(config.model)}")
    return Trained(config, network, values)
