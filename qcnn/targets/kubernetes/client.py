"""Training jobs on a cluster: lookup by name, following, and TensorBoard logs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from qcnn.errors import ArtifactError, QcnnError, RetryableError, TrainingError
from qcnn.jobs.job import run_label
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.engine import Engine
from qcnn.jobs.kubernetes.job_watcher import JobWatcher, LostError
from qcnn.jobs.kubernetes.manifest import OWN, RUN_LABEL, Manifest, run_of
from qcnn.jobs.kubernetes.training_manifest import outputs
from qcnn.storage.store import parse_bucket_uri
from qcnn.targets.artifacts import LogSource
from qcnn.targets.errors import StepError

# Timeout of a request that only makes an error message more precise.
_SECONDS = 10.0
# Allowed names of Kubernetes objects. Run names are arbitrary.
_IS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def can_be_name(text: str) -> bool:
    """Return whether a text is a valid name of a Kubernetes object."""
    return _IS_NAME.fullmatch(text) is not None


def find_job(api: NamespaceClient, engines: Sequence[Engine], name: str) -> tuple[Engine, Manifest]:
    """Return a training job of qcnn by its name, or the newest job of a run by the run name, with its engine.

    Raises:
        ArtifactError: If no job has this name.
    """
    for engine in engines:
        found = api.get(engine.resource, name) if can_be_name(name) else None
        if found is not None and found["metadata"].get("labels", {}).items() >= OWN.items():
            return engine, found
    selector = ",".join(f"{key}={value}" for key, value in {**OWN, RUN_LABEL: run_label(name)}.items())
    of_run = [
        (engine, job)
        for engine in engines
        for job in api.find(engine.resource, labelSelector=selector)
        if run_of(job["metadata"]) == name
    ]
    if not of_run:
        kinds = " or ".join(engine.name for engine in engines)
        raise ArtifactError(f"{kinds}: qcnn created none of this name in namespace {api.namespace}. Given: {name}")
    return max(of_run, key=lambda found: str(found[1]["metadata"]["creationTimestamp"]))


def _is_ending(api: NamespaceClient) -> bool:
    """Return whether the namespace is being deleted, or False if there is no quick response."""
    try:
        return api.limited_to(_SECONDS).namespace_is_ending()
    except QcnnError:
        return False


def follow(api: NamespaceClient, engine: Engine, job: Manifest, restarts: int | None) -> None:
    """Print the process logs of a training job until it ends.

    Args:
        api: Client for the namespace.
        engine: Engine of the job.
        job: The training job.
        restarts: Maximum number of process restarts, after which the job is deleted. None: no limit.

    Raises:
        StepError: If the job failed.
    """
    following = JobWatcher(api, engine, job, engine.replicas(job), restarts, pending_seconds=float("inf"))
    try:
        following.run()
    except (TrainingError, RetryableError) as error:
        # In a namespace that is being deleted, pods may disappear before the job, which then looks failed.
        if _is_ending(api):
            raise StepError(f"namespace: is being deleted, with the {engine.name}. Given: {api.namespace}") from None
        if isinstance(error, LostError):
            name = job["metadata"]["name"]
            raise StepError(
                f"{error.reason}; submit it again to continue from its last checkpoint. Given: {name}"
            ) from None
        raise StepError(str(error)) from None


def logs_of_jobs(
    api: NamespaceClient, engines: Sequence[Engine], names: Sequence[str], *, in_a_pod: bool = False
) -> list[LogSource]:
    """Return the logs of training jobs.

    Args:
        api: Client for the namespace.
        engines: Engines of the jobs.
        names: Names of jobs or runs.
        in_a_pod: Whether TensorBoard runs in a pod, which may have the same volumes.

    Raises:
        ArtifactError: If a job does not exist, or only its pods can read its logs.
    """
    found = {name: find_job(api, engines, name) for name in names}
    addresses = {name: outputs(job).get("logs", "") for name, (_, job) in found.items()}
    for name, address in addresses.items():
        if not parse_bucket_uri(address) and not (in_a_pod and address):
            kind, path = found[name][0].name, address or "an unknown path"
            raise ArtifactError(f"{kind}: its logs are on a volume of its pods, at {path}. Given: {name}")
    return [LogSource(name, address) for name, address in addresses.items()]
