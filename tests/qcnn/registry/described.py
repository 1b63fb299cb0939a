"""What servers and the command `qcnn models` return about registered models."""

from collections.abc import Mapping
from typing import Any

import httpx


def served_value(http: httpx.Client, name: str) -> float:
    """Return the prediction of a server for qubit 0 and angle 0."""
    found = http.post(f"/v1/models/{name}:predict", json={"instances": [{"qubit": 0, "angle": 0.0}]})
    assert found.status_code == httpx.codes.OK, found.text
    return float(found.json()["predictions"][0])


def version_states(described: Mapping[str, Any]) -> list[tuple[int, list[str], str]]:
    """Return number, labels and state of each version in the JSON of `qcnn models NAME`."""
    return [(each["version"], each["labels"], each["state"]) for each in described["versions"]]


def promoted_versions(described: Mapping[str, Any]) -> list[tuple[int | None, int, bool]]:
    """Return previous and new version, and whether it was forced, of each promotion in this JSON."""
    return [(each["previous"], each["version"], each["forced"]) for each in described["promotions"]]
