"""Find and delete the Kubernetes objects of training jobs, and orphaned objects."""

import contextlib
import dataclasses
import datetime
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from qcnn.jobs.kubernetes.api import JOBS, LEASES, PODS, SERVICES, NamespaceClient, Resource
from qcnn.jobs.kubernetes.engine import Engine
from qcnn.jobs.kubernetes.manifest import JOB, JOB_LABEL, OWN, run_of
from qcnn.jobs.kubernetes.training_manifest import lease_seconds
from qcnn.jobs.references import parse_time

# Owners are listed last. An object without a listed owner is older than the list, so its owner no longer exists.
_KINDS = {"Pod": PODS, "Service": SERVICES, "Lease": LEASES, "Job": JOBS}
# Seconds after which an object that a job should own has none, because its launcher was killed before the creation.
_ABANDONED_SECONDS = 600.0


@dataclasses.dataclass(frozen=True)
class OwnedObject:
    """Kubernetes object, as returned by the API. `engine` is that of a training job, or None for another object."""

    kind: str
    object: dict[str, Any]
    resource: Resource
    engine: Engine | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.object["metadata"]["name"])

    @property
    def uid(self) -> str:
        """The unique ID, which differs from those of earlier and later objects with the same name."""
        return str(self.object["metadata"]["uid"])

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return dict(self.object["metadata"].get("labels", {}))

    @property
    def run(self) -> str | None:
        """The run of the object, or None if it is unknown."""
        return run_of(self.object["metadata"])

    @property
    def is_managed(self) -> bool:
        """True if the object has the labels of objects that qcnn manages."""
        return self.labels.items() >= OWN.items()

    @property
    def owners(self) -> set[str]:
        """The UIDs of the owners of the object."""
        return {owner["uid"] for owner in self.object["metadata"].get("ownerReferences", ())}


def find_all(api: NamespaceClient, engines: Sequence[Engine]) -> list[OwnedObject]:
    """Return all objects of a namespace that are jobs of these engines, or that such a job can own."""
    others = {**_KINDS, **{kind: resource for engine in engines for kind, resource in engine.dependents.items()}}
    found = [OwnedObject(kind, each, resource) for kind, resource in others.items() for each in api.find(resource)]
    return found + [
        OwnedObject(engine.name, each, engine.resource, engine)
        for engine in engines
        for each in api.find(engine.resource)
    ]


def managed_jobs(objects: Iterable[OwnedObject]) -> list[OwnedObject]:
    """Return the training jobs and prediction Jobs that qcnn manages."""
    return [found for found in objects if (found.engine or found.kind == JOB.name) and found.is_managed]


def objects_of_run(run: str, objects: Iterable[OwnedObject]) -> list[OwnedObject]:
    """Return the managed objects of the run with exactly this name."""
    return [found for found in objects if found.is_managed and found.run == run]


def find_orphans(
    objects: Collection[OwnedObject], engines: Sequence[Engine], now: datetime.datetime
) -> list[OwnedObject]:
    """Return managed training jobs with a stale Lease, and managed objects whose owner does not exist.

    A training job without the Lease annotation needs no launcher, and is never an orphan.

    Args:
        objects: Objects that `find_all` has returned.
        engines: Engines of these objects.
        now: Time of the API server's clock.
    """
    leases = {owner: found.object["spec"] for found in objects if found.kind == "Lease" for owner in found.owners}
    stale = [found for found in managed_jobs(objects) if found.engine and _is_lease_stale(found, leases, now)]
    uids = {found.uid for found in objects}
    dependents = {kind for engine in engines for kind in engine.dependents}
    # Owners of other kinds, such as a ReplicaSet, are not in the list of objects.
    listed = {*_KINDS, *dependents, *(engine.name for engine in engines)}

    def has_no_owner(found: OwnedObject) -> bool:
        if owners := found.object["metadata"].get("ownerReferences", ()):
            known = {owner["uid"] for owner in owners if owner["kind"] in listed}
            return bool(known) and not known & uids
        age = (now - parse_time(found.object["metadata"]["creationTimestamp"])).total_seconds()
        return found.kind in dependents and age > _ABANDONED_SECONDS

    return stale + [found for found in objects if found.is_managed and has_no_owner(found)]


def with_dependents(chosen: Sequence[OwnedObject], objects: Sequence[OwnedObject]) -> list[OwnedObject]:
    """Return objects, the prediction Jobs of the training jobs among them, and all dependents of both."""
    names = {found.name for found in chosen if found.engine}
    predictions = [found for found in managed_jobs(objects) if found.labels.get(JOB_LABEL) in names]
    known = {found.uid: found for found in (*chosen, *predictions)}
    while new := {found.uid: found for found in objects if found.uid not in known and found.owners & known.keys()}:
        known |= new
    return list(known.values())


def delete(api: NamespaceClient, objects: Sequence[OwnedObject]) -> None:
    """Delete objects and wait until they no longer exist."""
    uids = {found.uid for found in objects}
    for found in objects:
        if not found.owners & uids:
            foreground = found.engine is None or found.engine.foreground
            api.delete(found.resource, found.name, uid=found.uid, dependents_first=foreground)
    for resource in {found.resource for found in objects}:
        with contextlib.closing(api.watch(resource)) as watch:
            next(left for left in watch if not uids & {each["metadata"]["uid"] for each in left.values()})


def _is_lease_stale(found: OwnedObject, leases: dict[str, dict[str, Any]], now: datetime.datetime) -> bool:
    seconds = lease_seconds(found.object)
    if seconds is None or (found.engine and found.engine.has_ended(found.object)):
        return False
    lease = leases.get(found.uid)
    if lease is None:
        renewed = parse_time(found.object["metadata"]["creationTimestamp"])
    else:
        seconds = lease["leaseDurationSeconds"]
        renewed = parse_time(lease["renewTime"])
    return (now - renewed).total_seconds() > seconds
