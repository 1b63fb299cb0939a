"""Endpoints that serve deployed versions of a model, and how requests are shared between them."""

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


def shared(now: Mapping[str, int], wanted: str, share: int) -> dict[str, int]:
    """Return the shares with `share` percent for one version, and the rest for the others in proportion.

    A version that is alone gets all; so do the others' last traffic, where they had none.

    >>> shared({"1": 100}, "2", 10)
    {'1': 90, '2': 10}
    >>> shared({"1": 90, "2": 10}, "2", 50)
    {'1': 50, '2': 50}
    >>> shared({}, "1", 10)
    {'1': 100}
    """
    others = {name: part for name, part in now.items() if name != wanted and part}
    if not others:
        return {**dict.fromkeys(now, 0), wanted: _ALL}
    return {**dict.fromkeys(now, 0), **_scaled(others, _ALL - share), wanted: share}


def without(now: Mapping[str, int], name: str, before: str) -> dict[str, int]:
    """Return the shares of all others where one version is taken away; `before` gets all if they had none.

    >>> without({"1": 81, "2": 9, "3": 10}, "3", "2")
    {'1': 90, '2': 10}
    >>> without({"1": 0, "2": 100}, "2", "1")
    {'1': 100}
    """
    others = {other: part for other, part in now.items() if other != name}
    if not any(others.values()):
        return {**others, before: _ALL}
    return _scaled(others, _ALL)


def _scaled(parts: Mapping[str, int], total: int) -> dict[str, int]:
    """Return whole numbers in proportion to parts, with this sum; what rounding leaves goes where most was cut off."""
    whole = sum(parts.values())
    exact = {name: part * total / whole for name, part in parts.items()}
    found = {name: int(value) for name, value in exact.items()}
    cut_off = sorted(exact, key=lambda name: found[name] - exact[name])
    for name in cut_off[: total - sum(found.values())]:
        found[name] += 1
    return found


# Enough for a table of numbers.
MACHINE = "n1-standard-2"
_SECONDS = 120.0
# A machine is started and an image pulled; by Google's documents that takes minutes.
_DEPLOY_SECONDS = 1800.0
# The id of a deployed model has at most ten digits.
_IDS = 10**10


@dataclasses.dataclass(frozen=True)
class ReplicaSettings:
    """What a version answers on: a machine type, and how many of them at least and at most."""

    machine_type: str
    least: int
    most: int


def endpoint_name(vertex: VertexClient, name: str) -> str:
    """Return the resource name of the endpoint that a person calls so."""
    return f"{vertex.place.parent}/endpoints/{name}"


def get_endpoint(vertex: VertexClient, name: str) -> Endpoint:
    """Return an endpoint.

    Raises:
        BackendError: there is none; or Vertex AI refuses, or does not answer.
    """
    try:
        found: Endpoint = vertex.ask("EndpointService.get_endpoint", name=endpoint_name(vertex, name))
    except NotFoundError:
        where = f"{vertex.place.project} in {vertex.place.location}"
        raise NotFoundError(f"endpoint: there is none of this name in {where}. Given: {name}") from None
    return found


def create_request(vertex: VertexClient, name: str) -> dict[str, Any]:
    """Return the request that makes an endpoint: its id is the name, so that there is never a second one."""
    return {"parent": vertex.place.parent, "endpoint_id": name, "endpoint": {"display_name": name}}


def endpoint_of(vertex: VertexClient, name: str, say: Callable[[str], None]) -> Endpoint:
    """Return an endpoint, which is made where it is not there.

    Raises:
        BackendError: Vertex AI refuses, or does not answer, or the work is not done in time.
    """
    with contextlib.suppress(NotFoundError):
        return get_endpoint(vertex, name)
    with contextlib.suppress(AlreadyExistsError):
        vertex.finish("EndpointService.create_endpoint", seconds=_SECONDS, **create_request(vertex, name))
        say(f"endpoint {name} is made")
    return get_endpoint(vertex, name)


def deployed_id(version: str) -> str:
    """Return the id under which a version, MODEL@VERSION, is deployed: the same for whoever asks."""
    return str(int(hashlib.sha256(version.encode()).hexdigest(), 16) % _IDS)


def deploy_request(
    endpoint: str, model: str, version: str, machines: ReplicaSettings, account: str | None, shares: Mapping[str, int]
) -> dict[str, Any]:
    """Return the request that deploys a version of a model at an endpoint, with the shares of all versions there."""
    name = f"{model}@{version}"
    replicas = {"min_replica_count": machines.least, "max_replica_count": machines.most}
    deployed: dict[str, Any] = {
        "id": deployed_id(name),
        "model": name,
        "display_name": f"{model.rpartition('/')[2]}-{version}",
        "dedicated_resources": {"machine_spec": {"machine_type": machines.machine_type}, **replicas},
        **({"service_account": account} if account else {}),
    }
    # What is being deployed is called "0" there.
    split = {"0" if each == deployed["id"] else each: share for each, share in shares.items()}
    return {"endpoint": endpoint, "deployed_model": deployed, "traffic_split": split}


def deploy(vertex: VertexClient, request: Mapping[str, Any]) -> None:
    """Deploy a version, and wait until it answers; one that was deployed meanwhile is left as it is.

    Raises:
        BackendError: Vertex AI refuses, or does not answer, or the work fails or is not done in time.
    """
    with contextlib.suppress(AlreadyExistsError):
        vertex.finish("EndpointService.deploy_model", seconds=_DEPLOY_SECONDS, **request)


def set_traffic(vertex: VertexClient, endpoint: str, shares: Mapping[str, int]) -> None:
    """Share an endpoint's requests between what is deployed there; without shares it answers none."""
    changed = {"name": endpoint, "traffic_split": dict(shares)}
    vertex.ask("EndpointService.update_endpoint", endpoint=changed, update_mask={"paths": ["traffic_split"]})


def undeploy(vertex: VertexClient, endpoint: str, identity: str, shares: Mapping[str, int] | None = None) -> None:
    """Take a version away, and share the requests between the rest."""
    fields: dict[str, Any] = {"endpoint": endpoint, "deployed_model_id": identity, "traffic_split": dict(shares or {})}
    with contextlib.suppress(NotFoundError):
        vertex.finish("EndpointService.undeploy_model", seconds=_DEPLOY_SECONDS, **fields)


def rollback_versions(endpoint: Endpoint) -> tuple[DeployedModel, DeployedModel]:
    """Return the newest version that has traffic, which is to go, and the one that was deployed before it.

    Raises:
        ConfigError: there are no two.
    """
    shares = endpoint.traffic_split
    in_order = sorted(endpoint.deployed_models, key=creation_time)
    places = [place for place, each in enumerate(in_order) if shares.get(each.id)]
    if not places or not places[-1]:
        given = ", ".join(each.display_name for each in in_order) or "none"
        raise ConfigError(f"rollback: needs a version with traffic, and one deployed before it. Given: {given}")
    return in_order[places[-1]], in_order[places[-1] - 1]


def deployed(endpoint: Endpoint) -> list[Deployed]:
    """Return what is deployed at an endpoint, the oldest first."""
    in_order = sorted(endpoint.deployed_models, key=creation_time)
    return [Deployed(each.id, each.display_name, endpoint.traffic_split.get(each.id, 0)) for each in in_order]
