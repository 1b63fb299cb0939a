"""Validation and pruning of TFJobs, as by the API server and the training operator's webhook.

scripts/tfjob_schema.py copies the schema from the operator.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMA: dict[str, Any] = json.loads(Path(__file__).with_name("tfjob_schema.json").read_text())["schema"]
_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    # A bool is also an int in Python.
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}
# A DNS-1035 label.
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def problems(found: Any, schema: dict[str, Any] = SCHEMA, path: str = "") -> Iterator[str]:
    """Yield violations of the schema, with the messages of the API server."""
    if "x-kubernetes-int-or-string" in schema:
        kind, allowed = "integer or string", isinstance(found, int | str) and not isinstance(found, bool)
    else:
        kind = schema["type"]
        allowed = isinstance(found, _TYPES[kind]) and (kind == "boolean" or not isinstance(found, bool))
    if not allowed:
        given = next((name for name, types in _TYPES.items() if isinstance(found, types)), "null")
        yield f'{path}: Invalid value: "{given}": {path} in body must be of type {kind}: "{given}"'
    elif isinstance(found, str) and not re.search(schema.get("pattern", ""), found):
        yield f"{path}: Invalid value: \"{found}\": {path} in body should match '{schema['pattern']}'"
    elif isinstance(found, dict):
        yield from (
            f"{path}.{key}: Required value".lstrip(".") for key in schema.get("required", ()) if key not in found
        )
        for key, value, below in _known(found, schema):
            if below:
                yield from problems(value, below, f"{path}.{key}".lstrip("."))
    elif isinstance(found, list):
        for index, value in enumerate(found):
            yield from problems(value, schema["items"], f"{path}[{index}]")


def pruned(found: Any, schema: dict[str, Any] = SCHEMA) -> Any:
    """Return an object without unknown fields, which the API server drops silently."""
    if isinstance(found, dict) and ("properties" in schema or "additionalProperties" in schema):
        return {key: pruned(value, below) for key, value, below in _known(found, schema)}
    if isinstance(found, list):
        return [pruned(value, schema["items"]) for value in found]
    return found


def denied(job: dict[str, Any]) -> str | None:
    """Return the error of the operator's webhook for a TFJob, or None (tfjob_webhook.go)."""
    replicas = job.get("spec", {}).get("tfReplicaSpecs")
    if not replicas:
        return "spec.tfReplicaSpecs: Required value: must be required"
    if not _NAME.fullmatch(name := job["metadata"]["name"]):
        return f'metadata.name: Invalid value: "{name}": should match: a DNS-1035 label must consist of lower case'
    for role, replica in replicas.items():
        containers = replica.get("template", {}).get("spec", {}).get("containers", ())
        if "tensorflow" not in [container["name"] for container in containers]:
            where = f"spec.tfReplicaSpecs[{role}].template.spec.containers"
            return f"{where}: Required value: must have at least one container with name tensorflow"
    return None


def _known(found: dict[str, Any], schema: dict[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield the name, value and schema of each field that the schema contains."""
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    for key, value in found.items():
        if below := properties.get(key, others):
            yield key, value, below
