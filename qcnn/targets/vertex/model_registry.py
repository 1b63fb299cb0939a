"""The images with which Vertex AI serves a SavedModel.

Source: "Prebuilt containers for inference" (cloud.google.com/vertex-ai/docs/predictions/pre-built-containers), as of
November 2026; the newest of TensorFlow is 2.15. TensorFlow 2.15.1 loads what this project exports, and predicts the
same numbers as the one that has exported it (2.18.1).
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
from qcnn.results.model_folder import FILE, SAVED_MODEL
from qcnn.storage.copies import is_whole, local_copy, new_copy
from qcnn.storage.store import parse_bucket_uri
from qcnn.targets.errors import UnavailableError
from qcnn.targets.vertex.client import AlreadyExistsError, NotFoundError, VertexClient

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import Model


@dataclasses.dataclass(frozen=True)
class ServingImage:
    """A prebuilt image: the end of its name, and the day after which Google may withdraw it."""

    name: str
    available_until: datetime.date


NEWEST = ServingImage("prediction/tf2-cpu.2-15:latest", datetime.date(2027, 1, 14))
# Each continent has copies of its own.
_CONTINENTS = {"europe": "europe", "asia": "asia", "australia": "asia", "me": "asia"}


def image_in(location: str) -> str:
    """Return the image's name where it is nearest to a location."""
    continent = _CONTINENTS.get(location.partition("-")[0], "us")
    return f"{continent}-docker.pkg.dev/vertex-ai/{NEWEST.name}"


def warning(today: datetime.date) -> str:
    """Return what a user is told of the image on a day; empty where it is sure to be there."""
    if today <= NEWEST.available_until:
        return ""
    return (
        f"Google may have withdrawn {NEWEST.name} after {NEWEST.available_until}; --serving-image names a newer one of "
        "its list"
    )


# By this label a version is found that has these weights already.
WEIGHTS_LABEL = "qcnn_weights"
_LABEL_LENGTH = 63
_NOT_IN_LABELS = re.compile(r"[^a-z0-9_-]")
_MEASURED = ("val_loss", "val_accuracy", "train_loss")


@dataclasses.dataclass(frozen=True)
class ExportedModel:
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


def exported(model: str, staging: str | None) -> ExportedModel:
    """Return the model folder at an address of Cloud Storage, or one of this machine, which has a place in `staging`.

    Raises:
        ArtifactError: there is no exported model.
        ConfigError: it is in another store; or it is here, and no address for a copy is given.
    """
    address = parse_bucket_uri(model)
    if address is not None:
        if address.scheme != "gs":
            raise ConfigError(f"model: must be in Cloud Storage, or on this machine. Given: {model}")
        with local_copy(model) as copied:
            return ExportedModel(str(address), labels_of(_described(copied, model)))
    labels = labels_of(_described(Path(model), model))
    target = parse_bucket_uri(staging or "")
    if target is None or target.scheme != "gs":
        raise ConfigError(
            f"staging: must be gs://BUCKET/FOLDER, where a model of this machine is copied to. Given: {staging}"
        )
    # Named by its weights: a second copy of the same model is the same.
    return ExportedModel(f"{target}/{labels[WEIGHTS_LABEL]}", labels, Path(model))


def stage(model: ExportedModel) -> None:
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
        "qcnn_model": model_display_name(experiment["model"]),
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


DEFAULT = "default"
_SECONDS = 600.0


def upload_request(
    vertex: VertexClient, name: str, model: ExportedModel, image: str, *, is_first: bool
) -> dict[str, Any]:
    """Return the request that makes a version of the model of a name: the first one, or another."""
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
    """Return the resource name of the model that a person calls so, which may have @VERSION or @ALIAS behind it."""
    return f"{vertex.place.parent}/models/{name}"


def version_of(vertex: VertexClient, name: str, model: ExportedModel, image: str, say: Callable[[str], None]) -> Model:
    """Return the version that has these weights; it is uploaded where there is none.

    Raises:
        BackendError: Vertex AI refuses, or does not answer, or the work is not done in time.
    """
    found, is_first = _known(vertex, name, model)
    if found is None:
        request = upload_request(vertex, name, model, image, is_first=is_first)
        try:
            vertex.finish("ModelService.upload_model", seconds=_SECONDS, again=False, **request)
        except (AlreadyExistsError, UnavailableError):
            # Somebody else has made it meanwhile, or the answer was lost.
            found, _ = _known(vertex, name, model)
            if found is None:
                raise
        else:
            found, _ = _known(vertex, name, model)
        assert found
        say(f"model {name}: version {found.version_id} is made of {model.artifacts}")
        return found
    say(f"model {name}: version {found.version_id} has these weights already")
    make_default(vertex, found)
    return found


def make_default(vertex: VertexClient, version: Model) -> None:
    """Give a version the alias `default`, which it takes from any other."""
    if DEFAULT not in version.version_aliases:
        name = f"{version.name}@{version.version_id}"
        vertex.ask("ModelService.merge_version_aliases", name=name, version_aliases=[DEFAULT])


def get_version(vertex: VertexClient, name: str) -> Model:
    """Return a version by its resource name, MODEL@VERSION.

    Raises:
        BackendError: there is none; or Vertex AI refuses, or does not answer.
    """
    found: Model = vertex.ask("ModelService.get_model", name=name)
    return found


def _known(vertex: VertexClient, name: str, model: ExportedModel) -> tuple[Model | None, bool]:
    """Return the version with these weights, None for none, and whether there is no version at all."""
    try:
        versions = vertex.listed("ModelService.list_model_versions", name=model_name(vertex, name))
    except NotFoundError:
        return None, True
    wanted = model.labels[WEIGHTS_LABEL]
    return next((each for each in versions if each.labels.get(WEIGHTS_LABEL) == wanted), None), not versions
