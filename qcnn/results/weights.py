"""Validation of weight files (HDF5), and loading of trained circuit parameters."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from qcnn.atomic_files import readable
from qcnn.circuits.formats.embedded import model_display_name
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.results.model_folder import MAX_BYTES, PARAMETERS, WEIGHTS, check_files, describe
from qcnn.simulators.structure.network import CircuitIR

# Kinds of NumPy dtypes: floating, signed and unsigned integers.
_NUMBERS = "fiu"


def checked_weights(folder: Path, description: Mapping[str, Any]) -> Path:
    """Return the weights file of a model folder after validation against its description.

    Raises:
        ArtifactError: If the file is missing, damaged or of another model, or fails `check_weights`.
    """
    path = folder / WEIGHTS
    check_files(folder, description, WEIGHTS)
    with readable("model", path):
        check_weights(path, MAX_BYTES[WEIGHTS])
    return path


def check_weights(path: Path, max_bytes: int) -> None:
    """Raise ValueError if datasets of a weights file are external, no numbers, or larger than `max_bytes`.

    HDF5 can refer to other files, whose content would then be read as weights.

    Raises:
        ValueError: If the file has such a link or dataset.
        OSError: If the file is damaged or cannot be read.
    """

    def linked(name: str, link: object) -> str | None:
        return None if isinstance(link, h5py.HardLink) else name

    total = 0

    def check(name: str, item: object) -> None:
        nonlocal total
        if not isinstance(item, h5py.Dataset):
            return
        if item.external or item.is_virtual:
            raise ValueError(f"the content of {name} is in another file")
        if item.dtype.kind not in _NUMBERS:
            raise ValueError(f"{name} does not contain numbers")
        total += item.nbytes

    with h5py.File(path, "r") as file:
        if name := file.visititems_links(linked):
            raise ValueError(f"{name} is a soft or external link")
        file.visititems(check)
    if total > max_bytes:
        raise ValueError(f"its weights have {total} bytes, more than {max_bytes}")


def load_arrays(folder: Path, description: Mapping[str, Any]) -> dict[str, npt.NDArray[np.float64]]:
    """Return the datasets of the weights file of a model folder by name, float64.

    Raises:
        ArtifactError: If the file is missing, damaged or of another model.
    """
    path, arrays = checked_weights(folder, description), dict[str, npt.NDArray[np.float64]]()

    def read(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = np.asarray(item, np.float64)

    with readable("model", path), h5py.File(path, "r") as file:
        file.visititems(read)
    return arrays


@dataclasses.dataclass(frozen=True)
class TrainedCircuit:
    """Trained circuit, with `values` of its symbols in units of pi, float64 (parameters,)."""

    config: ExperimentConfig
    network: CircuitIR
    values: npt.NDArray[np.float64]


def load_trained(folder: Path) -> TrainedCircuit:
    """Read the circuit and the trained circuit parameters of a model folder.

    Raises:
        ArtifactError: If a file is missing or damaged, or belongs to another model.
        ConfigError: If the circuit cannot be built.
    """
    # Cirq takes seconds to import.
    from qcnn.simulators.structure.gates import fingerprint_of, read_model

    description, config = describe(folder)
    weights = checked_weights(folder, description)
    with readable("model", weights), h5py.File(weights, "r") as file:
        values = np.asarray(file[PARAMETERS], np.float64)
    _, network = read_model(config.model, config.qubits, config.preparation, config.noise_in_training)
    if description["circuit"] != fingerprint_of(config.model, network) or values.shape != (network.parameters,):
        raise ArtifactError(
            f"model: was trained with another circuit of that name. Given: {model_display_name(config.model)}"
        )
    return TrainedCircuit(config, network, values)
