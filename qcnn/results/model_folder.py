"""Files of a model folder, and its description, which is read without TensorFlow."""

from pathlib import Path
from typing import Any

from qcnn import data
from qcnn.artifact_io import load_description
from qcnn.atomic_files import readable
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_saved

FILE, WEIGHTS, SAVED_MODEL = "model.json", "qcnn.weights.h5", "saved_model"


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
