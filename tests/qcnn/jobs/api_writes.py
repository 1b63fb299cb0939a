"""Patches of objects as on an API server, and its errors."""

import copy
from typing import Any

from qcnn.jobs.kubernetes.api import Object

# Keys of the items of lists that are merged (x-kubernetes-list-map-keys). Other lists are replaced.
_KEYS: dict[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ownerReferences": ("uid",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}


class StatusError(Exception):
    """Rejection of a request; `status` is the body of the response."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = {
            **{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"},
            **{"message": message, "reason": reason, "code": code},
        }


def merged(found: Any, patch: Any) -> Any:
    """Return a value after a JSON merge patch (RFC 7386): null deletes, lists are replaced."""
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
    """Return the value of a field after a forced server-side apply of `now` by a manager that has applied `before`.

    Fields in `before` but not in `now` are removed, and fields of other managers are retained. A field that several
    managers have applied is removed by any of them. A real server retains it until all have removed it.
    """
    if isinstance(now, list) and name in _KEYS:
        current, previous, new = (_keyed(items or [], _KEYS[name]) for items in (found, before, now))
        return list(applied(current, previous, new).values())
    if not isinstance(now, dict):
        return copy.deepcopy(now)
    known: Object = found if isinstance(found, dict) else {}
    earlier: Object = before if isinstance(before, dict) else {}
    result = {key: value for key, value in known.items() if key not in earlier}
    for key in earlier.keys() & known.keys() - now.keys():
        removed = earlier[key]
        # Another manager may have applied other parts of the field.
        if isinstance(removed, dict | list) and (rest := applied(known[key], removed, type(removed)(), str(key))):
            result[key] = rest
    return result | {key: applied(known.get(key), earlier.get(key), value, str(key)) for key, value in now.items()}


def _keyed(items: list[Object], keys: tuple[str, ...]) -> Object:
    return {repr([item.get(key) for key in keys]): item for item in items}
