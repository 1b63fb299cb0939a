"""One training, one object: it is created, or what is there is taken up. Never two of one."""

import contextlib
import enum
import logging
from collections.abc import Callable
from typing import Any

from launchers.kubernetes.api import Api
from launchers.kubernetes.kinds import Kind
from launchers.tfjob.manifest import HASH_ANNOTATION, TRAINING_ANNOTATION, condition
from trainer.errors import ConfigError, QcnnError

logger = logging.getLogger("qcnn")


class How(enum.Enum):
    """How a job came to be there."""

    CREATED = "is created"
    ADOPTED = "is adopted"
    SUCCEEDED = "has already succeeded"


def create_or_adopt(
    api: Api,
    kind: Kind,
    manifest: dict[str, Any],
    creating: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> tuple[dict[str, Any], How]:
    """Return the job of a manifest, as the API returns it; one that has failed is replaced.

    It is created within `creating()`. One that trains the same with other settings (image, memory, ...) counts once it
    has ended.

    Raises:
        ConfigError: a job of this name trains something else, or still runs with other settings, or the cluster
            refuses it.
    """
    name = manifest["metadata"]["name"]
    while True:
        found = api.get(kind.resource, name)
        if found is None:
            with creating():
                found = api.create(kind.resource, manifest)
            if found is None:
                # Another one was faster.
                continue
            return found, How.CREATED
        if _annotation(found, TRAINING_ANNOTATION) != _annotation(manifest, TRAINING_ANNOTATION):
            raise ConfigError(f"{kind.name}: one of this name trains something else. Given: {name}")
        if "deletionTimestamp" in found["metadata"] or condition(found, "Failed"):
            logger.info("%s %s has failed or is being deleted; it is replaced", kind.name, name)
            _replace(api, kind, found)
        elif condition(found, kind.succeeded):
            return found, How.SUCCEEDED
        elif _annotation(found, HASH_ANNOTATION) == _annotation(manifest, HASH_ANNOTATION):
            return found, How.ADOPTED
        else:
            raise ConfigError(
                f"{kind.name}: the same runs already, with other settings; wait for its end, or delete it and go on "
                f"from its last checkpoint: qcnn delete {name}. Given: {name}"
            )


def abandon(api: Api, kind: Kind, job: dict[str, Any], otherwise: str = "") -> None:
    """Delete a job that nobody will follow any more.

    That it cannot be deleted is said, with what becomes of it `otherwise`, but hides no reason to give it up.
    """
    name = job["metadata"]["name"]
    try:
        api.delete(kind.resource, name, uid=job["metadata"]["uid"])
    except QcnnError as error:
        logger.warning("%s %s cannot be deleted%s (%s)", kind.name, name, otherwise, error)


def _annotation(manifest: dict[str, Any], name: str) -> str | None:
    annotation: str | None = manifest["metadata"].get("annotations", {}).get(name)
    return annotation


def _replace(api: Api, kind: Kind, found: dict[str, Any]) -> None:
    """Delete a job and wait until it is gone with its pods, whose names the next one needs."""
    name, uid = found["metadata"]["name"], found["metadata"]["uid"]
    if "deletionTimestamp" not in found["metadata"]:
        api.delete(kind.resource, name, uid=uid, dependents_first=True)
    with contextlib.closing(api.watch(kind.resource, fieldSelector=f"metadata.name={name}")) as watch:
        next(jobs for jobs in watch if name not in jobs or jobs[name]["metadata"]["uid"] != uid)
