"""Reads weights from HDF5, which can hold more than numbers, and the quantum parameters among them."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from qcnn.artifact_io import check_size
from qcnn.atomic_files import readable, sha256_of
from qcnn.circuits.formats.embedded import model_display_name
from qcnn.errors import ArtifactError
from qcnn.experiment import ExperimentConfig
from qcnn.results.model_folder import FILE, WEIGHTS, describe
from qcnn.simulators.structure.gates import CircuitIR, fingerprint_of, read_model

# Kinds of NumPy's data types: floating, signed and unsigned.
_NUMBERS = "fiu"
# The most weights have 128 MiB.
_MOST_BYTES = 2**28


def checked_weights(folder: Path, description: Mapping[str, Any]) -> Path:
    """Return the file of a model folder's weights, once it is known to be the one that its description names.

    Raises:
        ArtifactError: it is missing, damaged or another model's, or `check_weights` refuses it.
    """
    path = folder / WEIGHTS
    with readable("model", path):
        check_size(path, _MOST_BYTES)
        if sha256_of(path) != description["weights_sha256"]:
            raise ArtifactError(
                f"model: {WEIGHTS} is damaged or another model's: {FILE} names other weights. Given: {path}"
            )
        check_weights(path, _MOST_BYTES)
    return path


def check_weights(path: Path, most: int) -> None:
    """Refuse a file of weights (HDF5) whose datasets are elsewhere, no numbers, or unpack to more than `most` bytes.

    HDF5 can name other files, whose content would then be read as if it were weights.

    Raises:
        ValueError: it has such a link or dataset.
        OSError: it is damaged, or cannot be read.
    """

    def elsewhere(name: str, link: object) -> str | None:
        return None if isinstance(link, h5py.HardLink) else name

    total = 0

    def check(name: str, found: object) -> None:
        nonlocal total
        if not isinstance(found, h5py.Dataset):
            return
        if found.external or found.is_virtual:
            raise ValueError(f"the content of {name} is in another file")
        if found.dtype.kind not in _NUMBERS:
            raise ValueError(f"{name} holds no numbers")
        total += found.nbytes

    with h5py.File(path, "r") as file:
        if name := file.visititems_links(elsewhere):
            raise ValueError(f"{name} is a link to elsewhere")
        file.visititems(check)
    if total > most:
        raise ValueError(f"its weights have {total} bytes, more than {most}")


# Where Keras keeps what the quantum layer has learnt.
_PARAMETERS = "layers/quantum_layer/vars/0"


@dataclasses.dataclass(frozen=True)
class TrainedCircuit:
    """A trained circuit: `values`, float64 (parameters,), are those of its symbols in turns of pi."""

    config: ExperimentConfig
    network: CircuitIR
    values: npt.NDArray[np.float64]


def load_trained(folder: Path) -> TrainedCircuit:
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
        raise ArtifactError(
            f"model: was trained with another circuit of that name. Given: {model_display_name(config.model)}"
        )
    return TrainedCircuit(config, network, values)
