"""TensorBoard on a cluster, as a Deployment and a Service (apps/v1, core/v1)."""

import contextlib
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from qcnn.errors import ArtifactError, ConfigError, service_message
from qcnn.jobs.job import JobIdentity
from qcnn.jobs.kubernetes.api import DEPLOYMENTS, PODS, SERVICES, NamespaceClient
from qcnn.jobs.kubernetes.manifest import CONTAINER, OWN, TASK_LABEL, JobKind, condition, pod_template
from qcnn.jobs.kubernetes.pods import read_process
from qcnn.jobs.pod_settings import PodSettings

# Port of the Service, as in the TensorFlow Quantum tutorial.
PORT = 5001
_CONTAINER_PORT = 6006
_TASK = "tensorboard"
_NAME_LABEL = "app.kubernetes.io/name"
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
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,48}[a-z0-9])?")


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


def check_name(name: str) -> None:
    """Raise ConfigError if a name is not valid for a Service."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            "name: must be at most 50 lowercase letters, digits and hyphens, beginning with a letter and not ending "
            f"with a hyphen. Given: {name}"
        )


def selector(name: str) -> dict[str, str]:
    """Return the labels that select the pods of a TensorBoard."""
    return {_NAME_LABEL: name, TASK_LABEL: _TASK}


def deployment(board: TensorBoardSpec) -> dict[str, Any]:
    """Return the Deployment of one pod, which syncs the logs and runs TensorBoard on the copies."""
    options = ("--bind-address", "0.0.0.0", "--port", str(_CONTAINER_PORT), "--wait")
    command = ["python", "-m", "qcnn.cli", "tensorboard", *board.addresses, *options]
    template = pod_template(board.pod, board.name, JobIdentity(board.name, _TASK), command, mounts_token=False)
    labels = selector(board.name)
    # Without the label of qcnn, because the NetworkPolicy of training pods would block the port of TensorBoard.
    template["metadata"]["labels"] = {**board.pod.labels, **labels, **_CAPTURE_LABEL}
    for container in template["spec"]["containers"]:
        if container["name"] == CONTAINER:
            container["ports"] = [{"name": "http", "containerPort": _CONTAINER_PORT}]
            container["readinessProbe"] = dict(_READY)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": board.name, "labels": {**labels, **OWN}},
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
    labels = selector(board.name)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": board.name, "labels": {**labels, **OWN}},
        "spec": {
            "type": "LoadBalancer" if board.public else "ClusterIP",
            "selector": labels,
            "ports": [{"name": "http", "port": PORT, "targetPort": "http"}],
        },
    }


_KIND = JobKind("Deployment", DEPLOYMENTS, "Available", "", TASK_LABEL, index_label=None, many=False)


def deploy(api: NamespaceClient, board: TensorBoardSpec) -> None:
    """Create or update a TensorBoard, and wait until it is ready.

    Raises:
        ConfigError: If the API server rejects an object, the name belongs to an object that is not a TensorBoard of
            qcnn, or TensorBoard does not start.
    """
    for resource, kind in ((DEPLOYMENTS, "Deployment"), (SERVICES, "Service")):
        existing = api.get(resource, board.name)
        if existing and not _is_managed(existing, board.name):
            raise ConfigError(f"name: belongs to a {kind} that is not a TensorBoard of qcnn. Given: {board.name}")
    api.apply(DEPLOYMENTS, deployment(board))
    api.apply(SERVICES, service(board))
    with contextlib.closing(api.watch(DEPLOYMENTS, fieldSelector=f"metadata.name={board.name}")) as watch:
        for objects in watch:
            if board.name in objects and _is_available(api, objects[board.name]):
                return


def undeploy(api: NamespaceClient, name: str) -> None:
    """Delete a TensorBoard, and wait until its pod no longer exists.

    Raises:
        ArtifactError: If no TensorBoard of this name exists.
    """
    existing = [(resource, api.get(resource, name)) for resource in (SERVICES, DEPLOYMENTS)]
    managed = [(resource, each) for resource, each in existing if each and _is_managed(each, name)]
    if not managed:
        raise ArtifactError(f"tensorboard: not found in namespace {api.namespace}. Given: {name}")
    for resource, each in managed:
        api.delete(resource, name, uid=each["metadata"]["uid"], dependents_first=True)
    with contextlib.closing(api.watch(PODS, labelSelector=_label_selector(name))) as watch:
        next(pods for pods in watch if not pods)


def _is_managed(existing: dict[str, Any], name: str) -> bool:
    labels: dict[str, str] = existing["metadata"].get("labels", {})
    return labels.items() >= {**selector(name), **OWN}.items()


def _label_selector(name: str) -> str:
    return ",".join(f"{key}={value}" for key, value in selector(name).items())


def _is_available(api: NamespaceClient, deployed: dict[str, Any]) -> bool:
    """Return whether the pod of a Deployment is ready.

    Raises:
        ConfigError: If the pod cannot be created, or is not ready before the deadline.
    """
    name, status = deployed["metadata"]["name"], deployed.get("status", {})
    if status.get("observedGeneration", 0) < deployed["metadata"]["generation"]:
        return False
    if status.get("updatedReplicas") == status.get("availableReplicas") == status.get("replicas") == 1:
        return True
    if failure := condition(deployed, "ReplicaFailure"):
        raise ConfigError(f"tensorboard: its pod cannot be created ({service_message(failure)}). Given: {name}")
    for each in status.get("conditions", ()):
        # Until a new pod is created, the condition is that of the previous pod.
        if each["type"] == "Progressing" and each["status"] == "False" and status.get("updatedReplicas"):
            pods = [read_process(pod, _KIND) for pod in api.find(PODS, labelSelector=_label_selector(name))]
            why = "; ".join(pod.pending_reason for pod in pods if pod.pending_reason) or "it does not answer"
            raise ConfigError(f"tensorboard: not started after {DEADLINE_SECONDS} s: {why}. Given: {name}")
    return False
