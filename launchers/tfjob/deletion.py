"""What belongs to trainings in a namespace, what of it nobody needs any more, and its end."""

import contextlib
import dataclasses
import datetime
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from launchers.kubernetes.api import JOBS, LEASES, PODS, SERVICES, Api, Resource
from launchers.kubernetes.identity import JOB_LABEL, OWN, run_of
from launchers.tfjob import read
from launchers.tfjob.kind import TFJOBS
from launchers.tfjob.times import parse_time

# Owners come last: what is seen to belong to nothing was there before they were looked for.
_KINDS = {"Pod": PODS, "Service": SERVICES, "Lease": LEASES, "Job": JOBS, "TFJob": TFJOBS}
_OWNERS = ("Job", "TFJob")


@dataclasses.dataclass(frozen=True)
class Found:
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
        """What tells it from others of its name, before it and after it."""
        return str(self.object["metadata"]["uid"])

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return dict(self.object["metadata"].get("labels", {}))

    @property
    def run(self) -> str | None:
        """The run that it belongs to, None where it does not say."""
        return run_of(self.object["metadata"])

    @property
    def is_own(self) -> bool:
        """Whether qcnn made it, or had it made."""
        return self.labels.items() >= OWN.items()

    @property
    def owners(self) -> set[str]:
        """The uids of the TFJobs and Jobs that it belongs to."""
        references = self.object["metadata"].get("ownerReferences", ())
        return {owner["uid"] for owner in references if owner["kind"] in _OWNERS}


def look(api: Api) -> list[Found]:
    """Return all objects of a namespace that can belong to a training, whoever made them."""
    return [Found(kind, found) for kind, resource in _KINDS.items() for found in api.find(resource)]


def roots(everything: Iterable[Found]) -> list[Found]:
    """Return what of ours runs processes, TFJobs and Jobs."""
    return [found for found in everything if found.kind in _OWNERS and found.is_own]


def of_run(everything: Iterable[Found], run: str) -> list[Found]:
    """Return what of ours belongs to the run of this name and to no other, however alike."""
    return [found for found in everything if found.is_own and found.run == run]


def orphans(everything: Collection[Found], now: datetime.datetime) -> list[Found]:
    """Return TFJobs whose launcher is gone, by its Lease, and what of ours belongs to nothing that is there.

    A TFJob that has no Lease to watch needs no launcher, and is none.
    """
    leases = {owner: found.object["spec"] for found in everything if found.kind == "Lease" for owner in found.owners}
    left = [found for found in roots(everything) if found.kind == "TFJob" and _is_left(found, leases, now)]
    there = {found.uid for found in everything}
    return left + [found for found in everything if found.is_own and found.owners and not found.owners & there]


def with_dependents(chosen: Sequence[Found], everything: Sequence[Found]) -> list[Found]:
    """Return objects with the Jobs that are part of them, and all that goes with either."""
    names = {found.name for found in chosen if found.kind == "TFJob"}
    parts = [found for found in roots(everything) if found.labels.get(JOB_LABEL) in names]
    whole = {found.uid: found for found in (*chosen, *parts)}
    owned = [found for found in everything if found.owners & whole.keys()]
    return list({**whole, **{found.uid: found for found in owned}}.values())


def delete(api: Api, objects: Sequence[Found]) -> None:
    """Delete objects and wait until they are gone."""
    uids = {found.uid for found in objects}
    for found in objects:
        if not found.owners & uids:
            api.delete(found.resource, found.name, uid=found.uid, dependents_first=True)
    for resource in {found.resource for found in objects}:
        with contextlib.closing(api.watch(resource)) as watch:
            next(left for left in watch if not uids & {item["metadata"]["uid"] for item in left.values()})


def _is_left(found: Found, leases: dict[str, dict[str, Any]], now: datetime.datetime) -> bool:
    seconds = read.lease_seconds(found.object)
    if seconds is None or read.has_ended(found.object):
        return False
    lease = leases.get(found.uid)
    if lease is None:
        seen = parse_time(found.object["metadata"]["creationTimestamp"])
    else:
        seconds = lease["leaseDurationSeconds"]
        seen = parse_time(lease["renewTime"])
    return (now - seen).total_seconds() > seconds
