"""Find and delete the Kubernetes objects of training jobs, and orphaned objects."""

import contextlib
import dataclasses
import datetime
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from qcnn.jobs.kubernetes.api import JOBS, LEASES, PODS, SERVICES, NamespaceClient, Resource
from qcnn.jobs.kubernetes.manifest import JOB_LABEL, OWN, run_of
from qcnn.jobs.references import parse_time
from qcnn.jobs.tfjob import status
from qcnn.jobs.tfjob.manifest import TFJOBS

# Owners are listed last. An object without a listed owner is older than the list, so its owner no longer exists.
_KINDS = {"Pod": PODS, "Service": SERVICES, "Lease": LEASES, "Job": JOBS, "TFJob": TFJOBS}
_OWNERS = ("Job", "TFJob")


@dataclasses.dataclass(frozen=True)
class OwnedObject:
    """Kubernetes object, as returned by the API."""

    kind: str
    object: dict[str, Any]

    @property
    def resource(self) -> Resource:
        """The API resource of its kind."""
        return _KINDS[self.kind]

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
        """Whether the object has the labels of objects that qcnn manages."""
        return self.labels.items() >= OWN.items()

    @property
    def owners(self) -> set[str]:
        """The UIDs of the TFJobs and Jobs that own the object."""
        references = self.object["metadata"].get("ownerReferences", ())
        return {owner["uid"] for owner in references if owner["kind"] in _OWNERS}


def find_all(api: NamespaceClient) -> list[OwnedObject]:
    """Return all objects of a namespace whose kind a training job can own."""
    return [OwnedObject(kind, found) for kind, resource in _KINDS.items() for found in api.find(resource)]


def managed_jobs(objects: Iterable[OwnedObject]) -> list[OwnedObject]:
    """Return the TFJobs and Jobs that qcnn manages."""
    return [found for found in objects if found.kind in _OWNERS and found.is_managed]


def objects_of_run(run: str, objects: Iterable[OwnedObject]) -> list[OwnedObject]:
    """Return the managed objects of the run with exactly this name."""
    return [found for found in objects if found.is_managed and found.run == run]


def find_orphans(objects: Collection[OwnedObject], now: datetime.datetime) -> list[OwnedObject]:
    """Return managed TFJobs with a stale Lease, and managed objects whose owner no longer exists.

    A TFJob without the Lease annotation needs no launcher, and is never an orphan.
    """
    leases = {owner: found.object["spec"] for found in objects if found.kind == "Lease" for owner in found.owners}
    stale = [found for found in managed_jobs(objects) if found.kind == "TFJob" and _is_lease_stale(found, leases, now)]
    uids = {found.uid for found in objects}
    return stale + [found for found in objects if found.is_managed and found.owners and not found.owners & uids]


def with_dependents(chosen: Sequence[OwnedObject], objects: Sequence[OwnedObject]) -> list[OwnedObject]:
    """Return objects, the prediction Jobs of the TFJobs among them, and all dependents of both."""
    names = {found.name for found in chosen if found.kind == "TFJob"}
    predictions = [found for found in managed_jobs(objects) if found.labels.get(JOB_LABEL) in names]
    owners = {found.uid: found for found in (*chosen, *predictions)}
    dependents = [found for found in objects if found.owners & owners.keys()]
    return list({**owners, **{found.uid: found for found in dependents}}.values())


def delete(api: NamespaceClient, objects: Sequence[OwnedObject]) -> None:
    """Delete objects and wait until they no longer exist."""
    uids = {found.uid for found in objects}
    for found in objects:
        if not found.owners & uids:
            api.delete(found.resource, found.name, uid=found.uid, dependents_first=True)
    for resource in {found.resource for found in objects}:
        with contextlib.closing(api.watch(resource)) as watch:
            next(left for left in watch if not uids & {each["metadata"]["uid"] for each in left.values()})


def _is_lease_stale(found: OwnedObject, leases: dict[str, dict[str, Any]], now: datetime.datetime) -> bool:
    seconds = status.lease_seconds(found.object)
    if seconds is None or status.has_ended(found.object):
        return False
    lease = leases.get(found.uid)
    if lease is None:
        renewed = parse_time(found.object["metadata"]["creationTimestamp"])
    else:
        seconds = lease["leaseDurationSeconds"]
        renewed = parse_time(lease["renewTime"])
    return (now - renewed).total_seconds() > seconds
