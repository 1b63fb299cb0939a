"""How an API server changes an object by what it is sent, and refusals of it, by pure functions."""

import copy
from typing import Any

from qcnn.jobs.kubernetes.api import Object

# The fields by which the items of a list are told apart (x-kubernetes-list-map-keys); other lists are replaced.
_KEYS: dict[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ownerReferences": ("uid",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}


class StatusError(Exception):
    """A request that is refused; `status` is the body of the answer."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = {
            **{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"},
            **{"message": message, "reason": reason, "code": code},
        }


def merged(found: Any, patch: Any) -> Any:
    """Return what a JSON merge patch makes of a value (RFC 7386): null deletes, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    result = dict(found) if isinstance(found, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def applied(found: Any, before: Any, now: Any, name: str = "") -> Any:
    """Return what a manager makes of the value of a field that applies `now` by force, and has applied `before`.

    What it has applied and does no longer is taken away, and what it never did stays as it is. Of a field that several
    managers have applied, any can take it away here; a real server keeps it until all have.
    """
    if isinstance(now, list) and name in _KEYS:
        of_all, of_its, wanted = (_keyed(items or [], _KEYS[name]) for items in (found, before, now))
        return list(applied(of_all, of_its, wanted).values())
    if not isinstance(now, dict):
        return copy.deepcopy(now)
    known: Object = found if isinstance(found, dict) else {}
    earlier: Object = before if isinstance(before, dict) else {}
    result = {key: value for key, value in known.items() if key not in earlier}
    for key in earlier.keys() & known.keys() - now.keys():
        gone = earlier[key]
        # Others may have put something beside what goes.
        if isinstance(gone, dict | list) and (rest := applied(known[key], gone, type(gone)(), str(key))):
            result[key] = rest
    return result | {key: applied(known.get(key), earlier.get(key), value, str(key)) for key, value in now.items()}


def _keyed(items: list[Object], keys: tuple[str, ...]) -> Object:
    return {repr([item.get(key) for key in keys]): item for item in items}
