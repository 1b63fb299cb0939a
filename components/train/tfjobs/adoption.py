"""One training, one object: it is created, or what is there is taken up. Never two of one."""

import contextlib
import enum
import logging
from collections.abc import Callable
from typing import Any

from components.train.tfjobs.api import Api
from components.train.tfjobs.kinds import Kind
from components.train.tfjobs.manifest import HASH_ANNOTATION, condition
from trainer.errors import ConfigError

logger = logging.getLogger("trainer")


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

    It is created within `creating()`.

    Raises:
        ConfigError: a job of this name was made from something else, or the cluster refuses it.
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
        digest = found["metadata"].get("annotations", {}).get(HASH_ANNOTATION)
        if digest != manifest["metadata"]["annotations"][HASH_ANNOTATION]:
            raise ConfigError(f"{kind.name}: one of this name was made from another description. Given: {name}")
        if "deletionTimestamp" in found["metadata"] or condition(found, "Failed"):
            logger.info("%s %s has failed or is being deleted; it is replaced", kind.name, name)
            _replace(api, kind, found)
        elif condition(found, kind.succeeded):
            return found, How.SUCCEEDED
        else:
            return found, How.ADOPTED


def _replace(api: Api, kind: Kind, found: dict[str, Any]) -> None:
    """Delete a job and wait until it is gone with its pods, whose names the next one needs."""
    name, uid = found["metadata"]["name"], found["metadata"]["uid"]
    if "deletionTimestamp" not in found["metadata"]:
        api.delete(kind.resource, name, uid=uid, dependents_first=True)
    with contextlib.closing(api.watch(kind.resource, fieldSelector=f"metadata.name={name}")) as watch:
        next(jobs for jobs in watch if name not in jobs or jobs[name]["metadata"]["uid"] != uid)
