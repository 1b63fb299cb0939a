"""Files of a model folder, and its description, which is read without TensorFlow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qcnn import artifact_io, data
from qcnn.artifact_io import FILES, check_size, load_description
from qcnn.atomic_files import complete_files, readable, writable
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.saved import from_saved

FILE, WEIGHTS, SAVED_MODEL = "model.json", "qcnn.weights.h5", "saved_model"
# Maximum bytes. The largest weights have 128 MiB. A program of TensorFlow has at most 2 GiB, and variables.
MAX_BYTES = {WEIGHTS: 2**28, SAVED_MODEL: 2**32}


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
        part: `WEIGHTS` or `SAVED_MODEL`.

    Raises:
        ArtifactError: If a file is missing, damaged, of another model, or not listed in model.json.
    """
    digests = {WEIGHTS: description["weights_sha256"], **description.get(FILES, {})}
    if part == WEIGHTS or FILES in description:
        artifact_io.check_files("model", folder / FILE, digests, part, MAX_BYTES[part])


def read_files(folder: Path, part: str) -> dict[str, bytes]:
    """Return model.json and the weights or the SavedModel after `check_files`, by name relative to the model folder.

    Args:
        folder: Model folder.
        part: `WEIGHTS` or `SAVED_MODEL`.

    Raises:
        ArtifactError: If a file cannot be read or is too large.
    """
    below = [f"{part}/{name}" for name in complete_files(folder / part)] if (folder / part).is_dir() else [part]
    found, free_bytes = {}, MAX_BYTES[part]
    for name in (FILE, *below):
        path = folder / name
        with readable("model", path):
            check_size(path, free_bytes)
            found[name] = path.read_bytes()
        free_bytes -= len(found[name])
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
