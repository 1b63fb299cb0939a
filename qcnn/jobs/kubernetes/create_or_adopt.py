"""One training has one object on the cluster: it is created, or what is there already is taken up."""

import contextlib
import enum
import logging
from collections.abc import Callable
from typing import Any

from qcnn.errors import ConfigError, QcnnError
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.manifest import HASH_ANNOTATION, TRAINING_ANNOTATION, JobKind, annotation, condition

logger = logging.getLogger("qcnn")


class CreateOutcome(enum.Enum):
    """How a job came to be on the cluster."""

    CREATED = "is created"
    ADOPTED = "is adopted"
    SUCCEEDED = "has already succeeded"


class NextAction(enum.Enum):
    """What is done about a job that may be there already."""

    CREATE = "create it"
    REPLACE = "delete what is there, and create it"
    ADOPT = "follow what is there"
    RETURN = "do nothing: it has succeeded"


def create_or_adopt(
    api: NamespaceClient,
    kind: JobKind,
    manifest: dict[str, Any],
    creating: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> tuple[dict[str, Any], CreateOutcome]:
    """Return the job of a manifest, as the API returns it; one that has failed is replaced.

    It is created within `creating()`. A job that trains the same with other settings (image, memory, ...) is taken up
    only once it has ended.

    Raises:
        ConfigError: a job of this name trains something else, or still runs with other settings, or the cluster
            refuses it.
    """
    name = manifest["metadata"]["name"]
    while True:
        found = api.get(kind.resource, name)
        step = next_action(kind, manifest, found)
        if found and step is NextAction.RETURN:
            return found, CreateOutcome.SUCCEEDED
        if found and step is NextAction.ADOPT:
            return found, CreateOutcome.ADOPTED
        if found:
            logger.info("%s %s has failed or is being deleted; it is replaced", kind.name, name)
            _replace(api, kind, found)
        with creating():
            created = api.create(kind.resource, manifest)
        # Where nothing was created, another launcher was faster, and its job is looked at.
        if created:
            return created, CreateOutcome.CREATED


def next_action(kind: JobKind, manifest: dict[str, Any], found: dict[str, Any] | None) -> NextAction:
    """Return what is done about a manifest whose name a job may have already.

    Raises:
        ConfigError: that job trains something else, or runs with other settings.
    """
    if found is None:
        return NextAction.CREATE
    name = manifest["metadata"]["name"]
    if annotation(found["metadata"], TRAINING_ANNOTATION) != annotation(manifest["metadata"], TRAINING_ANNOTATION):
        raise ConfigError(f"{kind.name}: one of this name trains something else. Given: {name}")
    if "deletionTimestamp" in found["metadata"] or condition(found, "Failed"):
        return NextAction.REPLACE
    if condition(found, kind.succeeded):
        return NextAction.RETURN
    if annotation(found["metadata"], HASH_ANNOTATION) == annotation(manifest["metadata"], HASH_ANNOTATION):
        return NextAction.ADOPT
    delete = f"qcnn delete {name} --namespace {found['metadata']['namespace']}"
    raise ConfigError(
        f"{kind.name}: the same runs already, with other settings; wait for its end, or delete it and go on "
        f"from its last checkpoint: {delete}. Given: {name}"
    )


def cancel_unwatched(api: NamespaceClient, kind: JobKind, job: dict[str, Any], otherwise: str = "") -> None:
    """Delete a job that nobody will follow any more.

    Where it cannot be deleted, a warning says so, with what becomes of it `otherwise`; the caller's own error counts.
    """
    name = job["metadata"]["name"]
    try:
        api.delete(kind.resource, name, uid=job["metadata"]["uid"])
    except QcnnError as error:
        logger.warning("%s %s cannot be deleted%s (%s)", kind.name, name, otherwise, error)


def _replace(api: NamespaceClient, kind: JobKind, found: dict[str, Any]) -> None:
    """Delete a job and wait until it and its pods are gone: the next job needs their names."""
    name, uid = found["metadata"]["name"], found["metadata"]["uid"]
    if "deletionTimestamp" not in found["metadata"]:
        api.delete(kind.resource, name, uid=uid, dependents_first=True)
    with contextlib.closing(api.watch(kind.resource, fieldSelector=f"metadata.name={name}")) as watch:
        next(jobs for jobs in watch if name not in jobs or jobs[name]["metadata"]["uid"] != uid)
