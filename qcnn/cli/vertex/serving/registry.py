"""Models of the registry, and their versions: the same weights are one version, however often they are uploaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qcnn.cli.target_errors import UnavailableError
from qcnn.cli.vertex.service.connection import Vertex
from qcnn.cli.vertex.service.refusals import AlreadyExistsError, NotFoundError
from qcnn.cli.vertex.serving.exported import WEIGHTS_LABEL, Exported

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import Model

DEFAULT = "default"
_SECONDS = 600.0


def upload_request(vertex: Vertex, name: str, model: Exported, image: str, *, is_first: bool) -> dict[str, Any]:
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


def model_name(vertex: Vertex, name: str) -> str:
    """Return the resource name of the model that a person calls so, which may have @VERSION or @ALIAS behind it."""
    return f"{vertex.place.parent}/models/{name}"


def version_of(vertex: Vertex, name: str, model: Exported, image: str, say: Callable[[str], None]) -> Model:
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


def make_default(vertex: Vertex, version: Model) -> None:
    """Give a version the alias `default`, which it takes from any other."""
    if DEFAULT not in version.version_aliases:
        name = f"{version.name}@{version.version_id}"
        vertex.ask("ModelService.merge_version_aliases", name=name, version_aliases=[DEFAULT])


def get_version(vertex: Vertex, name: str) -> Model:
    """Return a version by its resource name, MODEL@VERSION.

    Raises:
        BackendError: there is none; or Vertex AI refuses, or does not answer.
    """
    found: Model = vertex.ask("ModelService.get_model", name=name)
    return found


def _known(vertex: Vertex, name: str, model: Exported) -> tuple[Model | None, bool]:
    """Return the version with these weights, None for none, and whether there is no version at all."""
    try:
        versions = vertex.listed("ModelService.list_model_versions", name=model_name(vertex, name))
    except NotFoundError:
        return None, True
    wanted = model.labels[WEIGHTS_LABEL]
    return next((each for each in versions if each.labels.get(WEIGHTS_LABEL) == wanted), None), not versions
