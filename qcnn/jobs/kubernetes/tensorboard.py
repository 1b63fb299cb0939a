"""A TensorBoard on a cluster: Deployment and Service (apps/v1, core/v1), created and deleted."""

import contextlib
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from qcnn.errors import ArtifactError, ConfigError, single_line
from qcnn.jobs.job import JobIdentity
from qcnn.jobs.kubernetes.api import DEPLOYMENTS, PODS, SERVICES, NamespaceClient
from qcnn.jobs.kubernetes.manifest import CONTAINER, OWN, TASK_LABEL, JobKind, condition, pod_template
from qcnn.jobs.kubernetes.pods import read_process
from qcnn.jobs.pod_settings import PodSettings

# The Service's port is the tutorial's.
PORT = 5001
_CONTAINER_PORT = 6006
_TASK = "tensorboard"
_NAME_LABEL = "app.kubernetes.io/name"
# Of deploy/rbac.yaml; it may do nothing in the cluster.
ACCOUNT = "qcnn-tensorboard"
# The pods of trainings let those with this label reach their profilers (deploy/network.yaml).
_CAPTURE_LABEL = {"qcnn/captures-profiles": "true"}
# While it reads a profile it answers late, and is there nevertheless.
_READY = {
    "httpGet": {"path": "/", "port": "http"},
    "periodSeconds": 2,
    "timeoutSeconds": 30,
    "failureThreshold": 10,
}
# A pod that has not answered after so many seconds is given up.
DEADLINE_SECONDS = 300
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,48}[a-z0-9])?")


@dataclasses.dataclass(frozen=True)
class TensorBoardSpec:
    """A TensorBoard of this name that shows what is logged at these addresses, in a pod with these settings.

    It is reached from the cluster alone, or from everywhere if it is `public`.

    Raises:
        ConfigError: the name is none that a Service can have.
    """

    name: str
    addresses: Sequence[str]
    pod: PodSettings
    public: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)


def check_name(name: str) -> None:
    """Refuse a name that a Service cannot have.

    Raises:
        ConfigError: it is one.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            "name: must be of at most 50 small letters, digits and hyphens, beginning with a letter and not ending "
            f"with a hyphen. Given: {name}"
        )


def selector(name: str) -> dict[str, str]:
    """Return the labels by which the pods of a TensorBoard are found."""
    return {_NAME_LABEL: name, TASK_LABEL: _TASK}


def deployment(board: TensorBoardSpec) -> dict[str, Any]:
    """Return the Deployment: one pod, which mirrors its addresses and opens TensorBoard on the copies."""
    shown = ("--bind-address", "0.0.0.0", "--port", str(_CONTAINER_PORT), "--wait")
    command = ["python", "-m", "qcnn.cli", "tensorboard", *board.addresses, *shown]
    template = pod_template(board.pod, board.name, JobIdentity(board.name, _TASK), command, mounts_token=False)
    labels = selector(board.name)
    # Not qcnn's own label: what guards the ports of trainings would close this one's.
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
            # Two would read everything twice while one follows the other.
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": DEADLINE_SECONDS,
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }


def service(board: TensorBoardSpec) -> dict[str, Any]:
    """Return the Service by which the pod is reached."""
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
    """Create a TensorBoard, or bring one of this name to what is asked for; wait until it answers.

    Raises:
        ConfigError: the cluster refuses, or an object of this name is none of ours; or it does not start, and why.
    """
    for resource, kind in ((DEPLOYMENTS, "Deployment"), (SERVICES, "Service")):
        found = api.get(resource, board.name)
        if found and not _is_ours(found, board.name):
            raise ConfigError(f"name: a {kind} that is no TensorBoard of qcnn has it. Given: {board.name}")
    api.apply(DEPLOYMENTS, deployment(board))
    api.apply(SERVICES, service(board))
    with contextlib.closing(api.watch(DEPLOYMENTS, fieldSelector=f"metadata.name={board.name}")) as watch:
        for objects in watch:
            if board.name in objects and _is_available(api, objects[board.name]):
                return


def undeploy(api: NamespaceClient, name: str) -> None:
    """Delete a TensorBoard, and wait until its pod is gone.

    Raises:
        ArtifactError: there is none of this name.
    """
    found = [(resource, api.get(resource, name)) for resource in (SERVICES, DEPLOYMENTS)]
    ours = [(resource, each) for resource, each in found if each and _is_ours(each, name)]
    if not ours:
        raise ArtifactError(f"tensorboard: none of this name in namespace {api.namespace}. Given: {name}")
    for resource, each in ours:
        api.delete(resource, name, uid=each["metadata"]["uid"], dependents_first=True)
    with contextlib.closing(api.watch(PODS, labelSelector=_label_selector(name))) as watch:
        next(pods for pods in watch if not pods)


def _is_ours(found: dict[str, Any], name: str) -> bool:
    labels: dict[str, str] = found["metadata"].get("labels", {})
    return labels.items() >= {**selector(name), **OWN}.items()


def _label_selector(name: str) -> str:
    return ",".join(f"{key}={value}" for key, value in selector(name).items())


def _is_available(api: NamespaceClient, found: dict[str, Any]) -> bool:
    """Whether the pod that is asked for answers.

    Raises:
        ConfigError: it has not after the deadline, or cannot be created.
    """
    name, status = found["metadata"]["name"], found.get("status", {})
    if status.get("observedGeneration", 0) < found["metadata"]["generation"]:
        return False
    if status.get("updatedReplicas") == status.get("availableReplicas") == status.get("replicas") == 1:
        return True
    if failure := condition(found, "ReplicaFailure"):
        raise ConfigError(f"tensorboard: its pod cannot be created ({single_line(failure)}). Given: {name}")
    for each in status.get("conditions", ()):
        # What was said of an earlier pod stands there until one of the new ones is made.
        if each["type"] == "Progressing" and each["status"] == "False" and status.get("updatedReplicas"):
            pods = [read_process(pod, _KIND) for pod in api.find(PODS, labelSelector=_label_selector(name))]
            why = "; ".join(pod.trouble for pod in pods if pod.trouble) or "it does not answer"
            raise ConfigError(f"tensorboard: not started after {DEADLINE_SECONDS} s: {why}. Given: {name}")
    return False
