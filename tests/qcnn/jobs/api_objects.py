"""Versioned objects of an API server in memory, with lists and watches."""

import base64
import collections
import copy
import dataclasses
import itertools
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from qcnn.jobs.kubernetes.api import Object
from tests.qcnn.jobs.api_writes import StatusError

_TIME = "2026-01-31T12:00:00Z"
# Earlier versions have expired, as on a server that has run for a while.
_FIRST_VERSION = 1000
# Resources without metadata.generation.
_WITHOUT_GENERATION = ("events", "leases", "serviceaccounts", "services")


@dataclasses.dataclass(frozen=True)
class _Change:
    """Change of an object at a version; None before its creation and after its deletion."""

    version: int
    place: tuple[str, str]
    before: Object | None
    after: Object | None


class Objects:
    """Objects by namespace, plural and name. Readers receive copies."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._now: dict[tuple[str, str], dict[str, Object]] = collections.defaultdict(dict)
        self._changes: list[_Change] = []
        self._version = _FIRST_VERSION
        self._watched: collections.Counter[str] = collections.Counter()
        self._uids = itertools.count()
        self._ended = False

    def get(self, namespace: str, plural: str, name: str) -> Object | None:
        """Return an object in its current version."""
        with self.changed:
            return copy.deepcopy(self._now[namespace, plural].get(name))

    def all(self, namespace: str, plural: str) -> list[Object]:
        """Return all objects of a resource type in a namespace."""
        with self.changed:
            return copy.deepcopy(list(self._now[namespace, plural].values()))

    def put(self, namespace: str, plural: str, given: Object) -> Object:
        """Create or replace an object."""
        with self.changed:
            known = self._now[namespace, plural].get(given["metadata"]["name"])
            metadata = {**given["metadata"], "namespace": namespace}
            metadata["uid"] = known["metadata"]["uid"] if known else f"uid-{next(self._uids)}"
            metadata["creationTimestamp"] = _TIME
            if plural not in _WITHOUT_GENERATION:
                is_new = known is None or known.get("spec") != given.get("spec")
                metadata["generation"] = (known["metadata"]["generation"] if known else 0) + is_new
            return copy.deepcopy(self._change((namespace, plural), known, {**given, "metadata": metadata}))

    def remove(self, namespace: str, plural: str, name: str, *, dependents_first: bool = False) -> None:
        """Delete an object and its dependents immediately; a real garbage collector takes a moment."""
        with self.changed:
            if not (removed := self._now[namespace, plural].get(name)):
                return
            if dependents_first:
                metadata = {**removed["metadata"], "deletionTimestamp": _TIME, "finalizers": ["foregroundDeletion"]}
                removed = self._change((namespace, plural), removed, {**removed, "metadata": metadata})
                self._remove_dependents(namespace, removed)
            self._change((namespace, plural), removed, None)
            self._remove_dependents(namespace, removed)

    def end(self) -> None:
        """End all watches."""
        with self.changed:
            self._ended = True
            self.changed.notify_all()

    def until_watched(self, plural: str, times: int) -> None:
        """Wait until the given number of watches of a resource type were opened."""
        with self.changed:
            self.changed.wait_for(lambda: self._watched[plural] >= times or self._ended)

    def watches(self, plural: str) -> int:
        """Return the number of watches of a resource type that were ever opened."""
        return self._watched[plural]

    def listing(self, namespace: str, plural: str, query: Mapping[str, str]) -> Object:
        """Return a list of objects, or the page that `limit` and `continue` select.

        Raises:
            StatusError: If the version of `continue` has expired.
        """
        with self.changed:
            version, start = self._version, ""
            if token := query.get("continue"):
                where = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
                version, start = where["rv"], where["start"]
            if version < _FIRST_VERSION:
                raise StatusError(410, "Expired", "The provided continue parameter is too old")
            known = self._at(version, (namespace, plural))
            found = [known[name] for name in sorted(known) if name >= start and _matches(known[name], query)]
            limit = int(query.get("limit", 0)) or len(found)
            metadata: Object = {"resourceVersion": str(version)}
            if rest := found[limit:]:
                where = {"v": "meta.k8s.io/v1", "rv": version, "start": rest[0]["metadata"]["name"]}
                metadata["continue"] = base64.urlsafe_b64encode(json.dumps(where).encode()).decode().rstrip("=")
            return copy.deepcopy({"metadata": metadata, "items": found[:limit]})

    def events(self, namespace: str, plural: str, query: Mapping[str, str]) -> Iterator[Object]:
        """Yield the changes after a version, until the server ends."""
        seen = int(query["resourceVersion"])
        with self.changed:
            self._watched[plural] += 1
            self.changed.notify_all()
        if seen < _FIRST_VERSION:
            message = f"too old resource version: {seen} ({_FIRST_VERSION})"
            yield {"type": "ERROR", "object": StatusError(410, "Expired", message).status}
            return
        while True:
            with self.changed:
                while self._version <= seen and not self._ended:
                    self.changed.wait()
                new = self._changes[seen - _FIRST_VERSION :]
                seen += len(new)
            for change in new:
                if change.place == (namespace, plural) and (event := _event(change, query)):
                    yield event
            if self._ended:
                # A closed connection is detected only when the server sends an event.
                yield {"type": "MODIFIED", "object": {"metadata": {"name": "end", "resourceVersion": str(seen)}}}
                return

    def _at(self, version: int, place: tuple[str, str]) -> dict[str, Object]:
        """Return the objects of a resource type at a version."""
        if version == self._version:
            return self._now[place]
        found: dict[str, Object] = {}
        for change in self._changes[: version - _FIRST_VERSION]:
            if change.place == place:
                _apply_change(found, change)
        return found

    def _change(self, place: tuple[str, str], before: Object | None, after: Object | None) -> Object:
        """Record the change or deletion of an object, and return the object with its new version."""
        self._version += 1
        last = copy.deepcopy(after or before or {})
        last["metadata"]["resourceVersion"] = str(self._version)
        change = _Change(self._version, place, before, last if after else None)
        _apply_change(self._now[place], change)
        self._changes.append(change)
        self.changed.notify_all()
        return last

    def _remove_dependents(self, namespace: str, owner: Object) -> None:
        uid = owner["metadata"]["uid"]
        objects = [
            (place[1], each) for place, known in self._now.items() if place[0] == namespace for each in known.values()
        ]
        for plural, each in objects:
            if any(reference["uid"] == uid for reference in each["metadata"].get("ownerReferences", ())):
                self.remove(namespace, plural, each["metadata"]["name"])


def _apply_change(known: dict[str, Object], change: _Change) -> None:
    """Apply a change to the objects of a resource type."""
    if change.after:
        known[change.after["metadata"]["name"]] = change.after
    elif change.before:
        del known[change.before["metadata"]["name"]]


def _event(change: _Change, query: Mapping[str, str]) -> Object | None:
    """Return the event of a watch for a change, or None.

    An object that begins to match the selectors is added, and one that no longer matches is deleted.
    """
    before = change.before and _matches(change.before, query)
    after = change.after and _matches(change.after, query)
    if after:
        return {"type": "MODIFIED" if before else "ADDED", "object": change.after}
    if before and change.before:
        metadata = {**change.before["metadata"], "resourceVersion": str(change.version)}
        return {"type": "DELETED", "object": {**change.before, "metadata": metadata}}
    return None


def _matches(found: Object, query: Mapping[str, str]) -> bool:
    # A label without a value selects every object that has it.
    labels = [pair.partition("=") for pair in query.get("labelSelector", "").split(",") if pair]
    fields = [pair.split("=", 1) for pair in query.get("fieldSelector", "").split(",") if pair]
    own = found["metadata"].get("labels", {})
    return all(key in own and (not sign or own[key] == value) for key, sign, value in labels) and all(
        _field(found, path) == value for path, value in fields
    )


def _field(found: Object, path: str) -> Any:
    value: Any = found
    for key in path.split("."):
        value = value.get(key, {})
    return value
