"""Vertex AI endpoints, their deployed model versions, and the traffic split between them."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from qcnn.errors import ConfigError
from qcnn.jobs.vertex.location import creation_time
from qcnn.targets.base import Deployed
from qcnn.targets.vertex.client import AlreadyExistsError, NotFoundError, VertexClient

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import DeployedModel, Endpoint


_ALL = 100


def with_traffic(now: Mapping[str, int], version: str, share: int) -> dict[str, int]:
    """Return the traffic split with a percentage for one version, and the rest split as before.

    A single version gets 100. So does the version if the others have no traffic.

    Args:
        now: Current percentages by version.
        version: Version to change or add.
        share: Its percentage.

    >>> with_traffic({"1": 100}, "2", 10)
    {'1': 90, '2': 10}
    >>> with_traffic({"1": 90, "2": 10}, "2", 50)
    {'1': 50, '2': 50}
    >>> with_traffic({}, "1", 10)
    {'1': 100}
    """
    others = {name: part for name, part in now.items() if name != version and part}
    if not others:
        return {**dict.fromkeys(now, 0), version: _ALL}
    return {**dict.fromkeys(now, 0), **_scale(others, _ALL - share), version: share}


def without_version(now: Mapping[str, int], name: str, before: str) -> dict[str, int]:
    """Return the traffic split without one version, whose traffic goes to the others.

    Args:
        now: Current percentages by version.
        name: Version to remove.
        before: Version that gets all traffic if the others have none.

    >>> without_version({"1": 81, "2": 9, "3": 10}, "3", "2")
    {'1': 90, '2': 10}
    >>> without_version({"1": 0, "2": 100}, "2", "1")
    {'1': 100}
    """
    others = {other: part for other, part in now.items() if other != name}
    if not any(others.values()):
        return {**others, before: _ALL}
    return _scale(others, _ALL)


def _scale(parts: Mapping[str, int], total: int) -> dict[str, int]:
    """Return integers in proportion to parts, with the given sum, by the largest-remainder method."""
    whole = sum(parts.values())
    exact = {name: part * total / whole for name, part in parts.items()}
    found = {name: int(value) for name, value in exact.items()}
    cut_off = sorted(exact, key=lambda name: found[name] - exact[name])
    for name in cut_off[: total - sum(found.values())]:
        found[name] += 1
    return found


# Sufficient for models of this size.
MACHINE = "n1-standard-2"
_SECONDS = 120.0
# A VM starts and pulls an image, which takes minutes according to Google's documentation.
_DEPLOY_SECONDS = 1800.0
# IDs of deployed models have at most ten digits.
_IDS = 10**10


@dataclasses.dataclass(frozen=True)
class ReplicaSettings:
    """Machine type and number of replicas of a version."""

    machine_type: str
    min_replicas: int
    max_replicas: int


def endpoint_name(vertex: VertexClient, name: str) -> str:
    """Return the resource name of an endpoint."""
    return f"{vertex.place.parent}/endpoints/{name}"


def get_endpoint(vertex: VertexClient, name: str) -> Endpoint:
    """Return an endpoint.

    Raises:
        BackendError: If the endpoint does not exist, or Vertex AI rejects the request or is unavailable.
    """
    try:
        found: Endpoint = vertex.call("EndpointService.get_endpoint", name=endpoint_name(vertex, name))
    except NotFoundError:
        raise NotFoundError(f"endpoint: does not exist in {vertex.place.title}. Given: {name}") from None
    return found


def create_request(vertex: VertexClient, name: str) -> dict[str, Any]:
    """Return the request that creates an endpoint. Its ID is the name, so names are unique."""
    return {"parent": vertex.place.parent, "endpoint_id": name, "endpoint": {"display_name": name}}


def endpoint_of(vertex: VertexClient, name: str, report: Callable[[str], None]) -> Endpoint:
    """Return an endpoint, which is created if missing.

    Args:
        vertex: Vertex AI client.
        name: Name of the endpoint.
        report: Callback for a status line.

    Raises:
        BackendError: If Vertex AI rejects a request or is unavailable, or the creation times out.
    """
    with contextlib.suppress(NotFoundError):
        return get_endpoint(vertex, name)
    with contextlib.suppress(AlreadyExistsError):
        vertex.finish("EndpointService.create_endpoint", seconds=_SECONDS, **create_request(vertex, name))
        report(f"endpoint {name} created")
    return get_endpoint(vertex, name)


def deployed_id(version: str) -> str:
    """Return the ID of a deployed version, derived from its name MODEL@VERSION."""
    return str(int(hashlib.sha256(version.encode()).hexdigest(), 16) % _IDS)


def deploy_request(
    endpoint: str, model: str, version: str, machines: ReplicaSettings, account: str | None, shares: Mapping[str, int]
) -> dict[str, Any]:
    """Return the request that deploys a model version to an endpoint.

    Args:
        endpoint: Resource name of the endpoint.
        model: Resource name of the model.
        version: Version of the model.
        machines: Machine type and replicas.
        account: Service account of the version, or None.
        shares: Traffic percentages of all versions, the new one included.
    """
    name = f"{model}@{version}"
    replicas = {"min_replica_count": machines.min_replicas, "max_replica_count": machines.max_replicas}
    deployed: dict[str, Any] = {
        "id": deployed_id(name),
        "model": name,
        "display_name": f"{model.rpartition('/')[2]}-{version}",
        "dedicated_resources": {"machine_spec": {"machine_type": machines.machine_type}, **replicas},
        **({"service_account": account} if account else {}),
    }
    # In a deployment request, the API calls the new version "0".
    split = {"0" if each == deployed["id"] else each: share for each, share in shares.items()}
    return {"endpoint": endpoint, "deployed_model": deployed, "traffic_split": split}


def deploy(vertex: VertexClient, request: Mapping[str, Any]) -> None:
    """Deploy a version and wait for it. A version that is already deployed is no error.

    Raises:
        BackendError: If Vertex AI rejects the request or is unavailable, or the deployment fails or times out.
    """
    with contextlib.suppress(AlreadyExistsError):
        vertex.finish("EndpointService.deploy_model", seconds=_DEPLOY_SECONDS, **request)


def set_traffic(vertex: VertexClient, endpoint: str, shares: Mapping[str, int]) -> None:
    """Set the traffic split of an endpoint. Without percentages, it serves no requests.

    Args:
        vertex: Vertex AI client.
        endpoint: Resource name of the endpoint.
        shares: Traffic percentages by deployed version.
    """
    changed = {"name": endpoint, "traffic_split": dict(shares)}
    vertex.call("EndpointService.update_endpoint", endpoint=changed, update_mask={"paths": ["traffic_split"]})


def undeploy(vertex: VertexClient, endpoint: str, identity: str, shares: Mapping[str, int] | None = None) -> None:
    """Undeploy a version and set the traffic split of the others.

    Args:
        vertex: Vertex AI client.
        endpoint: Resource name of the endpoint.
        identity: ID of the deployed version.
        shares: Traffic percentages of the other versions.
    """
    fields: dict[str, Any] = {"endpoint": endpoint, "deployed_model_id": identity, "traffic_split": dict(shares or {})}
    with contextlib.suppress(NotFoundError):
        vertex.finish("EndpointService.undeploy_model", seconds=_DEPLOY_SECONDS, **fields)


def rollback_versions(endpoint: Endpoint) -> tuple[DeployedModel, DeployedModel]:
    """Return the newest version with traffic, and the version deployed before it.

    Raises:
        ConfigError: If there are no two such versions.
    """
    shares = endpoint.traffic_split
    in_order = sorted(endpoint.deployed_models, key=creation_time)
    with_requests = [index for index, each in enumerate(in_order) if shares.get(each.id)]
    if not with_requests or not with_requests[-1]:
        given = ", ".join(each.display_name for each in in_order) or "none"
        raise ConfigError(f"rollback: must have a version with traffic, and one deployed before it. Given: {given}")
    return in_order[with_requests[-1]], in_order[with_requests[-1] - 1]


def list_versions(endpoint: Endpoint) -> list[Deployed]:
    """Return the versions deployed to an endpoint, oldest first."""
    in_order = sorted(endpoint.deployed_models, key=creation_time)
    return [Deployed(each.id, each.display_name, endpoint.traffic_split.get(each.id, 0)) for each in in_order]
