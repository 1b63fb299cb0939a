"""Creation of the object of a job on the cluster, or adoption of the existing object."""

import contextlib
import enum
import logging
import operator
import time
from collections.abc import Callable, Sequence
from typing import Any

import tenacity

from qcnn.errors import ConfigError, QcnnError, RetryableError
from qcnn.jobs.job import CreateOutcome
from qcnn.jobs.kubernetes.api import PODS, NamespaceClient, Resource
from qcnn.jobs.kubernetes.manifest import (
    HASH_ANNOTATION,
    TRAINING_ANNOTATION,
    JobKind,
    Manifest,
    annotation,
    condition,
)

logger = logging.getLogger("qcnn")

# Seconds within which the cache of an admission webhook must contain an object that was just created.
_CACHE_SECONDS = 30.0
# Seconds within which a failed job, its dependents and its pods must be deleted.
_DELETION_SECONDS = 300.0


class NextAction(enum.Enum):
    """Action for a manifest, depending on the existing job of its name."""

    CREATE = "create the job"
    REPLACE = "delete the existing job, and create the job"
    ADOPT = "watch the existing job"
    RETURN = "return, because the existing job has succeeded"


def create_or_adopt(
    api: NamespaceClient,
    kind: JobKind,
    manifest: dict[str, Any],
    creating: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    prerequisites: Sequence[tuple[Resource, Manifest]] = (),
) -> tuple[dict[str, Any], CreateOutcome]:
    """Create the job of a manifest or adopt the existing one, and return it as the API does.

    A failed job is replaced. A job with the same training but other settings (image, memory, ...) is adopted only if it
    has succeeded.

    Args:
        api: Client of the namespace.
        kind: Type of the job.
        manifest: Manifest of the job.
        creating: Returns a context manager that is active during the creation.
        prerequisites: Objects to create before the job, which the job then owns.

    Returns:
        The job, and the outcome.

    Raises:
        ConfigError: If a job of this name belongs to another experiment or runs with other settings, or if the API
            server rejects the job.
        RetryableError: If an existing job is not deleted in time, or the API server is unavailable.
    """
    name = manifest["metadata"]["name"]
    while True:
        existing = api.get(kind.resource, name)
        action = next_action(kind, manifest, existing)
        if existing and action is NextAction.RETURN:
            return existing, CreateOutcome.SUCCEEDED
        if existing and action is NextAction.ADOPT:
            _own(api, existing, prerequisites)
            return existing, CreateOutcome.ADOPTED
        if existing:
            logger.info("%s %s has failed or is being deleted; it is replaced", kind.name, name)
            _delete_and_wait(api, kind, existing)
        with creating():
            created = _create(api, kind, manifest, prerequisites)
        # None: another launcher has created the job in the meantime. The loop checks that job.
        if created:
            return created, CreateOutcome.CREATED


def next_action(kind: JobKind, manifest: dict[str, Any], existing: dict[str, Any] | None) -> NextAction:
    """Return the action for a manifest.

    Args:
        kind: Type of the job.
        manifest: Manifest of the job.
        existing: Existing job of the same name, or None.

    Raises:
        ConfigError: If the existing job belongs to another experiment or runs with other settings.
    """
    if existing is None:
        return NextAction.CREATE
    name = manifest["metadata"]["name"]
    if annotation(existing["metadata"], TRAINING_ANNOTATION) != annotation(manifest["metadata"], TRAINING_ANNOTATION):
        raise ConfigError(f"{kind.name}: a job of this name belongs to another experiment. Given: {name}")
    if "deletionTimestamp" in existing["metadata"] or condition(existing, "Failed"):
        return NextAction.REPLACE
    if condition(existing, kind.succeeded):
        return NextAction.RETURN
    if annotation(existing["metadata"], HASH_ANNOTATION) == annotation(manifest["metadata"], HASH_ANNOTATION):
        return NextAction.ADOPT
    delete = f"qcnn delete {name} --namespace {existing['metadata']['namespace']}"
    raise ConfigError(
        f"{kind.name}: already runs with other settings; wait until it ends, or delete it and resume from its last "
        f"checkpoint: {delete}. Given: {name}"
    )


def cancel_unwatched(api: NamespaceClient, kind: JobKind, job: dict[str, Any], otherwise: str = "") -> None:
    """Delete a job that will not be watched any more, and log a warning if that fails.

    No error is raised, because it would hide the error of the caller.

    Args:
        api: Client of the namespace.
        kind: Type of the job.
        job: Job, as the API returned it.
        otherwise: Clause of the warning about the consequence.
    """
    name = job["metadata"]["name"]
    try:
        api.delete(kind.resource, name, uid=job["metadata"]["uid"])
    except QcnnError as error:
        logger.warning("%s %s cannot be deleted%s (%s)", kind.name, name, otherwise, error)


def _create(
    api: NamespaceClient, kind: JobKind, manifest: Manifest, prerequisites: Sequence[tuple[Resource, Manifest]]
) -> Manifest | None:
    """Create a job after its prerequisites, and return it, or return None if a job of this name exists."""
    for resource, each in prerequisites:
        api.create(resource, each)
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: lacks_prerequisite(error, prerequisites)),
        wait=tenacity.wait_random_exponential(multiplier=0.25, max=5),
        stop=tenacity.stop_after_delay(_CACHE_SECONDS),
        reraise=True,
    )
    try:
        created = retrying(api.create, kind.resource, manifest)
    except ConfigError:
        for resource, each in prerequisites:
            if not _owners(found := api.get(resource, each["metadata"]["name"])) and found:
                api.delete(resource, found["metadata"]["name"], uid=found["metadata"]["uid"])
        raise
    if created:
        _own(api, created, prerequisites)
    return created


def lacks_prerequisite(error: BaseException, prerequisites: Sequence[tuple[Resource, Manifest]]) -> bool:
    """Return whether a webhook rejects a job because it does not find a prerequisite, which may have just been created.

    Args:
        error: Error of the creation of the job.
        prerequisites: Objects to create before the job.
    """
    message = str(error) if isinstance(error, ConfigError) else ""
    return "not found" in message and any(each["metadata"]["name"] in message for _, each in prerequisites)


def _own(api: NamespaceClient, job: Manifest, prerequisites: Sequence[tuple[Resource, Manifest]]) -> None:
    """Make a job the owner of its prerequisites that have none."""
    owner = {key: job[key] for key in ("apiVersion", "kind")}
    owner |= {key: job["metadata"][key] for key in ("name", "uid")}
    for resource, each in prerequisites:
        name = each["metadata"]["name"]
        if (found := api.get(resource, name)) and not _owners(found):
            kind = {key: each[key] for key in ("apiVersion", "kind")}
            api.apply(resource, {**kind, "metadata": {"name": name, "ownerReferences": [owner]}})


def _owners(found: Manifest | None) -> list[str]:
    return [owner["uid"] for owner in found["metadata"].get("ownerReferences", ())] if found else []


def _delete_and_wait(api: NamespaceClient, kind: JobKind, job: Manifest) -> None:
    """Delete a job and wait until neither it nor its dependents exist, because the next job needs their names.

    Raises:
        RetryableError: If they exist for too long, for example because a controller that has to remove a finalizer does
            not run.
    """
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    if "deletionTimestamp" not in job["metadata"]:
        api.delete(kind.resource, name, uid=uid, dependents_first=kind.foreground)
    end = time.monotonic() + _DELETION_SECONDS

    def wait(what: str, resource: Resource, is_gone: Callable[[dict[str, Manifest]], bool], **selectors: str) -> None:
        with contextlib.closing(api.watch(resource, seconds=end - time.monotonic(), **selectors)) as watch:
            if not any(map(is_gone, watch)):
                raise RetryableError(
                    f"{kind.name}: {what} still exists {_DELETION_SECONDS:.0f} s after its deletion; see the "
                    f"finalizers in its metadata. Given: {name}"
                )

    wait(
        "it",
        kind.resource,
        lambda jobs: name not in jobs or jobs[name]["metadata"]["uid"] != uid,
        fieldSelector=f"metadata.name={name}",
    )
    for dependent, resource in kind.dependents.items():
        wait(f"its {dependent}", resource, lambda found: not any(uid in _owners(each) for each in found.values()))
    if not kind.foreground:
        wait("a pod", PODS, operator.not_, labelSelector=f"{kind.pod_label}={name}")
