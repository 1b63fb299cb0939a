"""Find and delete what belongs to trainings in a namespace, and what of it is left over."""

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

# Owners are listed last: an object whose owner is not among them was there before, so its owner is gone.
_KINDS = {"Pod": PODS, "Service": SERVICES, "Lease": LEASES, "Job": JOBS, "TFJob": TFJOBS}
_OWNERS = ("Job", "TFJob")


@dataclasses.dataclass(frozen=True)
class OwnedObject:
    """An object of the cluster, as the API returned it."""

    kind: str
    object: dict[str, Any]

    @property
    def resource(self) -> Resource:
        """Its kind, for the API."""
        return _KINDS[self.kind]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.object["metadata"]["name"])

    @property
    def uid(self) -> str:
        """The id that no other object has, not even an earlier or later one of its name."""
        return str(self.object["metadata"]["uid"])

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return dict(self.object["metadata"].get("labels", {}))

    @property
    def run(self) -> str | None:
        """The run that it belongs to, None where that is not known."""
        return run_of(self.object["metadata"])

    @property
    def is_own(self) -> bool:
        """Whether it was made by qcnn, or for it."""
        return self.labels.items() >= OWN.items()

    @property
    def owners(self) -> set[str]:
        """The uids of the TFJobs and Jobs that it belongs to."""
        references = self.object["metadata"].get("ownerReferences", ())
        return {owner["uid"] for owner in references if owner["kind"] in _OWNERS}


def find_all(api: NamespaceClient) -> list[OwnedObject]:
    """Return all objects of a namespace that can belong to a training, whoever made them."""
    return [OwnedObject(kind, found) for kind, resource in _KINDS.items() for found in api.find(resource)]


def jobs(everything: Iterable[OwnedObject]) -> list[OwnedObject]:
    """Return our TFJobs and Jobs."""
    return [found for found in everything if found.kind in _OWNERS and found.is_own]


def belonging_to(run: str, everything: Iterable[OwnedObject]) -> list[OwnedObject]:
    """Return our objects that belong to the run of exactly this name."""
    return [found for found in everything if found.is_own and found.run == run]


def orphans(everything: Collection[OwnedObject], now: datetime.datetime) -> list[OwnedObject]:
    """Return our TFJobs whose launcher is gone, by its Lease, and our objects whose owner is gone.

    A TFJob without the annotation of a Lease needs no launcher, and is no orphan.
    """
    leases = {owner: found.object["spec"] for found in everything if found.kind == "Lease" for owner in found.owners}
    left = [found for found in jobs(everything) if found.kind == "TFJob" and _is_lease_stale(found, leases, now)]
    there = {found.uid for found in everything}
    return left + [found for found in everything if found.is_own and found.owners and not found.owners & there]


def with_dependents(chosen: Sequence[OwnedObject], everything: Sequence[OwnedObject]) -> list[OwnedObject]:
    """Return objects with the Jobs that predict with them, and everything that these own."""
    names = {found.name for found in chosen if found.kind == "TFJob"}
    parts = [found for found in jobs(everything) if found.labels.get(JOB_LABEL) in names]
    whole = {found.uid: found for found in (*chosen, *parts)}
    owned = [found for found in everything if found.owners & whole.keys()]
    return list({**whole, **{found.uid: found for found in owned}}.values())


def delete(api: NamespaceClient, objects: Sequence[OwnedObject]) -> None:
    """Delete objects and wait until they are gone."""
    uids = {found.uid for found in objects}
    for found in objects:
        if not found.owners & uids:
            api.delete(found.resource, found.name, uid=found.uid, dependents_first=True)
    for resource in {found.resource for found in objects}:
        with contextlib.closing(api.watch(resource)) as watch:
            next(left for left in watch if not uids & {item["metadata"]["uid"] for item in left.values()})


def _is_lease_stale(found: OwnedObject, leases: dict[str, dict[str, Any]], now: datetime.datetime) -> bool:
    seconds = status.lease_seconds(found.object)
    if seconds is None or status.has_ended(found.object):
        return False
    lease = leases.get(found.uid)
    if lease is None:
        seen = parse_time(found.object["metadata"]["creationTimestamp"])
    else:
        seconds = lease["leaseDurationSeconds"]
        seen = parse_time(lease["renewTime"])
    return (now - seen).total_seconds() > seconds
