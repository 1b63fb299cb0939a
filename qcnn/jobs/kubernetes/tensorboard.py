"""TensorBoard on a cluster, as a Deployment and a Service (apps/v1, core/v1)."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from qcnn.jobs.job import JobIdentity
from qcnn.jobs.kubernetes.api import DEPLOYMENTS, SERVICES, NamespaceClient
from qcnn.jobs.kubernetes.deployments import DeployedProgram, check_name
from qcnn.jobs.kubernetes.manifest import CONTAINER, pod_template
from qcnn.jobs.pod_settings import PodSettings

# Port of the Service, as in the TensorFlow Quantum tutorial.
PORT = 5001
_CONTAINER_PORT = 6006
_PROGRAM = DeployedProgram("tensorboard", "a TensorBoard", {"Deployment": DEPLOYMENTS, "Service": SERVICES})
# Service account of deploy/rbac.yaml without permissions in the cluster.
ACCOUNT = "qcnn-tensorboard"
# Training pods accept connections to their profilers from pods with this label (deploy/network.yaml).
_CAPTURE_LABEL = {"qcnn/captures-profiles": "true"}
# The timeout is long, because TensorBoard responds slowly while it reads a profile.
_READY = {
    "httpGet": {"path": "/", "port": "http"},
    "periodSeconds": 2,
    "timeoutSeconds": 30,
    "failureThreshold": 10,
}
# Timeout for the pod to become ready.
DEADLINE_SECONDS = 300


@dataclasses.dataclass(frozen=True)
class TensorBoardSpec:
    """Specification of a TensorBoard on a cluster.

    Attributes:
        name: Name of the Deployment and the Service.
        addresses: URIs of the logs.
        pod: Pod settings.
        public: Whether the Service is reachable from outside the cluster.

    Raises:
        ConfigError: If the name is not valid for a Service.
    """

    name: str
    addresses: Sequence[str]
    pod: PodSettings
    public: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)


def deployment(board: TensorBoardSpec) -> dict[str, Any]:
    """Return the Deployment of one pod, which syncs the logs and runs TensorBoard on the copies."""
    options = ("--bind-address", "0.0.0.0", "--port", str(_CONTAINER_PORT), "--wait")
    command = ["python", "-m", "qcnn.cli", "tensorboard", *board.addresses, *options]
    template = pod_template(
        board.pod, board.name, JobIdentity(board.name, _PROGRAM.component), command, mounts_token=False
    )
    labels = _PROGRAM.pod_labels(board.name)
    # Without the label of qcnn, because the NetworkPolicy of training pods would block the port of TensorBoard.
    template["metadata"]["labels"] = {**board.pod.labels, **labels, **_CAPTURE_LABEL}
    for container in template["spec"]["containers"]:
        if container["name"] == CONTAINER:
            container["ports"] = [{"name": "http", "containerPort": _CONTAINER_PORT}]
            container["readinessProbe"] = dict(_READY)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _PROGRAM.metadata(board.name),
        "spec": {
            "replicas": 1,
            # A rolling update would run two pods, which both read all logs.
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": DEADLINE_SECONDS,
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }


def service(board: TensorBoardSpec) -> dict[str, Any]:
    """Return the Service of a TensorBoard."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _PROGRAM.metadata(board.name),
        "spec": {
            "type": "LoadBalancer" if board.public else "ClusterIP",
            "selector": _PROGRAM.pod_labels(board.name),
            "ports": [{"name": "http", "port": PORT, "targetPort": "http"}],
        },
    }


def deploy(api: NamespaceClient, board: TensorBoardSpec) -> None:
    """Create or update a TensorBoard, and wait until it is ready.

    Raises:
        ConfigError: If the API server rejects an object, the name belongs to an object that is not a TensorBoard of
            qcnn, or TensorBoard does not start.
    """
    _PROGRAM.apply(api, [deployment(board), service(board)])
    _PROGRAM.wait(api, board.name, DEADLINE_SECONDS)


def undeploy(api: NamespaceClient, name: str) -> None:
    """Delete a TensorBoard, and wait until its pod no longer exists.

    Raises:
        ArtifactError: If no TensorBoard of this name exists.
    """
    _PROGRAM.delete(api, name)
