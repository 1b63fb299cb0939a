"""A TensorBoard on a cluster, as a Deployment and a Service."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qcnn.errors import ConfigError
from qcnn.jobs.kubernetes import tensorboard
from qcnn.jobs.kubernetes.tensorboard import ACCOUNT, PORT, Board, deployment, service
from qcnn.jobs.tfjob.manifest import PROFILER_PORT
from qcnn.storage.store import SCHEMES, in_bucket
from qcnn.targets.artifacts import distinct, logs_here
from qcnn.targets.settings import PodFields
from qcnn.targets.tfjob.client import Connection, cluster


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoardSettings(PodFields, Connection):
    """The pod of a TensorBoard, and in which namespace it is."""


def board_of(name: str, logs: Sequence[str], settings: PodFields, *, public: bool) -> Board:
    """Return a TensorBoard on logs at these addresses, in a pod with these settings.

    Raises:
        ConfigError: logs are where the pod does not reach them, or a setting is wrong.
        ArtifactError: two of them would have one name.
    """
    # A file is that of the trainings, whose account writes.
    pod = settings.pod_with().model_copy(update={"service_account": settings.service_account or ACCOUNT})
    for address in logs:
        if not in_bucket(address) and not pod.keeps(address):
            known = ", ".join(f"{scheme}://BUCKET/FOLDER" for scheme in SCHEMES)
            raise ConfigError(f"tensorboard: the logs must be at {known}, or on a volume of the pod. Given: {address}")
    # The pod names them by their addresses.
    distinct(named for address in logs if (named := logs_here(address, Path())))
    return Board(name, list(logs), pod, public)


def requests(name: str, logs: Sequence[str], settings: PodFields, *, public: bool) -> Sequence[Any]:
    """Return what `deploy` would create."""
    board = board_of(name, logs, settings, public=public)
    return [deployment(board), service(board)]


def deploy(
    name: str, logs: Sequence[str], settings: PodFields, namespace: str | None, *, public: bool
) -> Mapping[str, str]:
    """Let a TensorBoard run, and return how it is reached; "namespace" is the one that it is in.

    Raises:
        ConfigError: as `board_of`, or the cluster refuses it.
    """
    board = board_of(name, logs, settings, public=public)
    with cluster(namespace) as api:
        tensorboard.deploy(api, board)
        where = f"--namespace {api.namespace}"
        return {
            "namespace": api.namespace,
            "look at it": f"kubectl {where} port-forward service/{name} {PORT}",
            "and open": f"http://localhost:{PORT}",
            "capture profiles": f"of a worker by the name of its pod, such as JOB-worker-0:{PROFILER_PORT}",
            "delete it": f"qcnn tensorboard --undeploy --name {name} {where}",
        }


def delete(name: str, namespace: str | None) -> str:
    """Delete a TensorBoard, and return the namespace that it was in.

    Raises:
        ArtifactError: there is none of this name.
    """
    with cluster(namespace) as api:
        tensorboard.undeploy(api, name)
        return api.namespace
