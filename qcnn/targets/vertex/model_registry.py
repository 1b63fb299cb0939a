"""Model versions in Vertex AI Model Registry, and the images that serve them.

Source: "Prebuilt containers for inference" (cloud.google.com/vertex-ai/docs/predictions/pre-built-containers), as of
November 2026; the newest of TensorFlow is 2.15. TensorFlow 2.15.1 loads the exported models, and predicts the same
numbers as TensorFlow 2.21.0, which exports them.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcnn.circuits.formats.embedded import model_display_name
from qcnn.errors import ArtifactError, ConfigError
from qcnn.results.model_folder import FILE, PROGRAM, SAVED_MODEL, VARIABLES, WEIGHTS, check_files
from qcnn.storage.copies import is_complete, local_copy, new_copy
from qcnn.storage.store import parse_bucket_uri
from qcnn.targets.errors import UnavailableError
from qcnn.targets.vertex.client import AlreadyExistsError, NotFoundError, VertexClient

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import Model


@dataclasses.dataclass(frozen=True)
class ServingImage:
    """A prebuilt image: its name without the registry, and the last day of its guaranteed availability."""

    name: str
    available_until: datetime.date


NEWEST = ServingImage("prediction/tf2-cpu.2-15:latest", datetime.date(2027, 1, 14))
# Registry by the prefix of a location. Each continent has copies of the images.
_CONTINENTS = {"europe": "europe", "asia": "asia", "australia": "asia", "me": "asia"}


def image_in(location: str) -> str:
    """Return the name of the serving image in the registry that is nearest to a location."""
    continent = _CONTINENTS.get(location.partition("-")[0], "us")
    return f"{continent}-docker.pkg.dev/vertex-ai/{NEWEST.name}"


def withdrawal_warning(today: datetime.date) -> str:
    """Return a warning if the serving image may be withdrawn on a day, or empty if it is available."""
    if today <= NEWEST.available_until:
        return ""
    return (
        f"Google may have withdrawn {NEWEST.name} after {NEWEST.available_until}; set --serving-image to a newer "
        "prebuilt image"
    )


# Label that identifies the version with given weights.
WEIGHTS_LABEL = "qcnn_weights"
_LABEL_LENGTH = 63
_NOT_IN_LABELS = re.compile(r"[^a-z0-9_-]")
_MEASURED = ("val_loss", "val_accuracy", "train_loss")


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """A model folder: its URI, the labels of its version, and the local folder to copy from.

    `source` is None if the model is already in the bucket. A version of `qcnn export` is a SavedModel itself.
    """

    address: str
    labels: Mapping[str, str]
    source: Path | None = None
    is_version: bool = False

    @property
    def artifacts(self) -> str:
        """The URI of its SavedModel."""
        return self.address if self.is_version else f"{self.address}/{SAVED_MODEL}"


def find_exported(model: str, staging: str | None) -> ExportedModel:
    """Return a model folder in Cloud Storage, or a local one with its URI in `staging`.

    Raises:
        ArtifactError: If the folder is not an exported model.
        ConfigError: If the model is in another store, or is local and `staging` is missing.
    """
    address = parse_bucket_uri(model)
    if address is not None:
        if address.scheme != "gs":
            raise ConfigError(f"model: must be in Cloud Storage, or a local folder. Given: {model}")
        with local_copy(model) as copied:
            labels = labels_of(_read_description(copied, model))
            return ExportedModel(str(address), labels, is_version=_is_version(copied))
    labels = labels_of(_read_description(Path(model), model))
    target = parse_bucket_uri(staging or "")
    if target is None or target.scheme != "gs":
        raise ConfigError(f"staging: must be gs://BUCKET/FOLDER for a copy of the local model. Given: {staging}")
    # The folder is named by the weights, so that a model is copied only once.
    source = Path(model)
    return ExportedModel(f"{target}/{labels[WEIGHTS_LABEL]}", labels, source, _is_version(source))


def stage(model: ExportedModel) -> None:
    """Copy a local model to its URI, unless it exists there."""
    if model.source is None or is_complete(model.address, FILE):
        return
    with new_copy(model.address, FILE) as copied:
        shutil.copytree(model.source, copied)


def labels_of(description: Mapping[str, Any]) -> dict[str, str]:
    """Return the content of model.json as labels.

    Label values consist of lowercase letters, digits, hyphens and underscores. A decimal point is written as "_", such
    as 0_125 for 0.125.
    """
    experiment, training = description["experiment"], description["training"]
    provenance = description.get("provenance", {})
    found = {
        WEIGHTS_LABEL: description["weights_sha256"],
        "qcnn_dataset": description["dataset_digest"],
        "qcnn_commit": provenance.get("commit", ""),
        "qcnn_model": model_display_name(experiment["model"]),
        "qcnn_qubits": experiment["qubits"],
        "qcnn_seed": experiment["seed"],
        "qcnn_epochs": training["epochs"],
        **{f"qcnn_{name}": f"{training[name]:.6g}" for name in _MEASURED if name in training},
    }
    return {name: _label(str(value)) for name, value in found.items()}


def _label(text: str) -> str:
    return _NOT_IN_LABELS.sub("_", text.lower())[:_LABEL_LENGTH]


def _read_description(folder: Path, given: str) -> dict[str, Any]:
    from qcnn.artifact_io import load_description

    is_version = _is_version(folder)
    if not is_version and not (folder / SAVED_MODEL / PROGRAM).is_file():
        raise ArtifactError(f"model: must be a folder exported by qcnn, with {SAVED_MODEL}. Given: {given}")
    description: dict[str, Any] = load_description("model", folder / FILE)
    missing = {"experiment", "training", "weights_sha256", "dataset_digest"} - description.keys()
    if missing:
        raise ArtifactError(f"model: {FILE} must have {', '.join(sorted(missing))}. Given: {given}")
    for part in (WEIGHTS, *((PROGRAM, VARIABLES) if is_version else (SAVED_MODEL,))):
        check_files(folder, description, part)
    return description


def _is_version(folder: Path) -> bool:
    return (folder / PROGRAM).is_file()


DEFAULT = "default"
_SECONDS = 600.0


def upload_request(
    vertex: VertexClient, name: str, model: ExportedModel, image: str, *, is_first: bool
) -> dict[str, Any]:
    """Return the request that uploads a version of a model.

    Args:
        vertex: Vertex AI client.
        name: Name of the model.
        model: Exported model.
        image: Serving image.
        is_first: Whether the model does not exist yet.
    """
    described = {
        "display_name": name,
        "artifact_uri": model.artifacts,
        "container_spec": {"image_uri": image},
        "labels": dict(model.labels),
        "version_aliases": [DEFAULT],
    }
    own = {"model_id": name} if is_first else {"parent_model": model_name(vertex, name)}
    return {"parent": vertex.place.parent, "model": described, **own}


def model_name(vertex: VertexClient, name: str) -> str:
    """Return the resource name of a model, which can end with @VERSION or @ALIAS."""
    return f"{vertex.place.parent}/models/{name}"


def version_of(
    vertex: VertexClient, name: str, model: ExportedModel, image: str, report: Callable[[str], None]
) -> Model:
    """Return the version with the weights of a model, which is uploaded if missing.

    Args:
        vertex: Vertex AI client.
        name: Name of the model.
        model: Exported model.
        image: Serving image.
        report: Callback for a status line.

    Raises:
        BackendError: If Vertex AI rejects a request or is unavailable, or the upload times out.
    """
    found, is_first = _find_version(vertex, name, model)
    if found is None:
        request = upload_request(vertex, name, model, image, is_first=is_first)
        try:
            vertex.finish("ModelService.upload_model", seconds=_SECONDS, retry=False, **request)
        except (AlreadyExistsError, UnavailableError):
            # Another client has created it, or the response was lost.
            found, _ = _find_version(vertex, name, model)
            if found is None:
                raise
        else:
            found, _ = _find_version(vertex, name, model)
        assert found
        report(f"model {name}: version {found.version_id} created from {model.artifacts}")
        return found
    report(f"model {name}: version {found.version_id} has these weights already")
    make_default(vertex, found)
    return found


def make_default(vertex: VertexClient, version: Model) -> None:
    """Move the alias `default` to a version."""
    if DEFAULT not in version.version_aliases:
        name = f"{version.name}@{version.version_id}"
        vertex.call("ModelService.merge_version_aliases", name=name, version_aliases=[DEFAULT])


def get_version(vertex: VertexClient, name: str) -> Model:
    """Return a version by its resource name, MODEL@VERSION.

    Raises:
        BackendError: If the version does not exist, or Vertex AI rejects the request or is unavailable.
    """
    found: Model = vertex.call("ModelService.get_model", name=name)
    return found


def _find_version(vertex: VertexClient, name: str, model: ExportedModel) -> tuple[Model | None, bool]:
    """Return the version with these weights or None, and whether the model has no versions."""
    try:
        versions = vertex.list_items("ModelService.list_model_versions", name=model_name(vertex, name))
    except NotFoundError:
        return None, True
    wanted = model.labels[WEIGHTS_LABEL]
    return next((each for each in versions if each.labels.get(WEIGHTS_LABEL) == wanted), None), not versions
