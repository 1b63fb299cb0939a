"""An exported model as Vertex AI keeps it: where its SavedModel is, and what its labels say of it."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qcnn.circuits.formats.embedded import shown
from qcnn.errors import ArtifactError, ConfigError
from qcnn.results.model_folder import FILE, SAVED_MODEL
from qcnn.storage.copies import is_whole, local_copy, new_copy
from qcnn.storage.uri import in_bucket

# By this label a version is found that has these weights already.
WEIGHTS_LABEL = "qcnn_weights"
_LABEL_LENGTH = 63
_NOT_IN_LABELS = re.compile(r"[^a-z0-9_-]")
_MEASURED = ("val_loss", "val_accuracy", "train_loss")


@dataclasses.dataclass(frozen=True)
class Exported:
    """A model folder: its address, the labels of the version that is made of it, and where on this machine it is.

    `source` is None for one that is at its address already.
    """

    address: str
    labels: Mapping[str, str]
    source: Path | None = None

    @property
    def artifacts(self) -> str:
        """The address of its SavedModel."""
        return f"{self.address}/{SAVED_MODEL}"


def exported(model: str, staging: str | None) -> Exported:
    """Return the model folder at an address of Cloud Storage, or one of this machine, which has a place in `staging`.

    Raises:
        ArtifactError: there is no exported model.
        ConfigError: it is in another store; or it is here, and no address for a copy is given.
    """
    address = in_bucket(model)
    if address is not None:
        if address.scheme != "gs":
            raise ConfigError(f"model: must be in Cloud Storage, or on this machine. Given: {model}")
        with local_copy(model) as copied:
            return Exported(str(address), labels_of(_described(copied, model)))
    labels = labels_of(_described(Path(model), model))
    target = in_bucket(staging or "")
    if target is None or target.scheme != "gs":
        raise ConfigError(
            f"staging: must be gs://BUCKET/FOLDER, where a model of this machine is copied to. Given: {staging}"
        )
    # Named by its weights: a second copy of the same model is the same.
    return Exported(f"{target}/{labels[WEIGHTS_LABEL]}", labels, Path(model))


def stage(model: Exported) -> None:
    """Copy a model of this machine to its address, unless it is there."""
    if model.source is None or is_whole(model.address, FILE):
        return
    with new_copy(model.address, FILE) as copied:
        shutil.copytree(model.source, copied)


def labels_of(description: Mapping[str, Any]) -> dict[str, str]:
    """Return the content of model.json as labels, whose values are small letters, digits, hyphens and underscores.

    The point of a number is written "_": 0.125 is 0_125.
    """
    experiment, training = description["experiment"], description["training"]
    provenance = description.get("provenance", {})
    found = {
        WEIGHTS_LABEL: description["weights_sha256"],
        "qcnn_dataset": description["dataset_digest"],
        "qcnn_commit": provenance.get("commit", ""),
        "qcnn_model": shown(experiment["model"]),
        "qcnn_qubits": experiment["qubits"],
        "qcnn_seed": experiment["seed"],
        "qcnn_epochs": training["epochs"],
        **{f"qcnn_{name}": f"{training[name]:.6g}" for name in _MEASURED if name in training},
    }
    return {name: _label(str(value)) for name, value in found.items()}


def _label(text: str) -> str:
    return _NOT_IN_LABELS.sub("_", text.lower())[:_LABEL_LENGTH]


def _described(folder: Path, given: str) -> dict[str, Any]:
    from qcnn.artifact_io import load_description

    if not (folder / SAVED_MODEL / "saved_model.pb").is_file():
        raise ArtifactError(f"model: must be a folder that qcnn has exported, with {SAVED_MODEL}. Given: {given}")
    description: dict[str, Any] = load_description("model", folder / FILE)
    missing = {"experiment", "training", "weights_sha256", "dataset_digest"} - description.keys()
    if missing:
        raise ArtifactError(f"model: {FILE} lacks {', '.join(sorted(missing))}. Given: {given}")
    return description
