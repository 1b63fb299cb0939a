"""Files of a model folder, and its description, which is read without TensorFlow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qcnn import artifact_io, data
from qcnn.artifact_io import FILES, check_size, load_description
from qcnn.atomic_files import readable, writable
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.saved import from_saved

FILE, WEIGHTS, SAVED_MODEL, PREDICTOR = "model.json", "qcnn.weights.h5", "saved_model", "predictor.json"
# Datasets of the weights file, named by Keras: the circuit parameters, and the dense layers.
PARAMETERS, DENSE_LAYERS = "layers/quantum_layer/vars/0", ("layers/dense", "layers/dense_1")
# Files of a SavedModel, which a numbered version has beside model.json.
PROGRAM, VARIABLES = "saved_model.pb", "variables"
# Maximum bytes. The largest weights have 128 MiB. A program of TensorFlow has at most 2 GiB, and variables.
MAX_BYTES = {WEIGHTS: 2**28, **dict.fromkeys((SAVED_MODEL, PROGRAM, VARIABLES), 2**32), PREDICTOR: 2**28}


def describe(folder: Path) -> tuple[dict[str, Any], ExperimentConfig]:
    """Return the content of model.json and its experiment.

    Raises:
        ArtifactError: If the file is missing or damaged.
    """
    path = folder / FILE
    description = load_description("model", path)
    with readable("model", path):
        config: ExperimentConfig = from_saved(description["experiment"])
        missing = {"dataset_digest", "weights_sha256", "circuit"} - description.keys()
        if missing:
            raise KeyError(*sorted(missing))
        data.parse_description(description)
        if not all(isinstance(value, int | float) for value in description["training"].values()):
            raise ValueError("training must contain numbers")
    return description, config


def check_files(folder: Path, description: Mapping[str, Any], part: str) -> None:
    """Check the weights or the SavedModel of a model folder before they are read.

    Models of earlier versions have no digest of the SavedModel.

    Args:
        folder: Model folder.
        description: Content of model.json.
        part: Name of a file, or `SAVED_MODEL`.

    Raises:
        ArtifactError: If a file is missing, damaged, of another model, or not listed in model.json.
    """
    digests = {WEIGHTS: description["weights_sha256"], **description.get(FILES, {})}
    if part == WEIGHTS or FILES in description:
        artifact_io.check_files("model", folder / FILE, digests, part, MAX_BYTES.get(part, MAX_BYTES[WEIGHTS]))


def check_all_files(folder: Path, description: Mapping[str, Any]) -> None:
    """Check all files of a model folder.

    Raises:
        ArtifactError: If a file is missing, damaged, of another model, or not listed in model.json.
    """
    for part in dict.fromkeys((WEIGHTS, *(name.partition("/")[0] for name in description.get(FILES, {})))):
        check_files(folder, description, part)


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the checked files that predict: model.json, the weights, and predictor.json if the model has it, by name.

    Raises:
        ArtifactError: If a file cannot be read or is too large.
    """
    found = {}
    for name in (FILE, WEIGHTS, PREDICTOR):
        path = folder / name
        if name == PREDICTOR and not path.exists():
            continue
        with readable("model", path):
            if name != FILE:
                check_size(path, MAX_BYTES[name])
            found[name] = path.read_bytes()
    return found


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the result of `read_files` into a folder.

    Raises:
        ArtifactError: If the folder cannot be written.
    """
    with writable(folder):
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
