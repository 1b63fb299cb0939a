"""TensorBoard as a Deployment with a Service (apps/v1, core/v1): manifests by pure functions."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from qcnn.jobs.kubernetes.identity import OWN, TASK_LABEL
from qcnn.jobs.kubernetes.pod_template import CONTAINER, pod_template
from qcnn.jobs.naming import Identity
from qcnn.jobs.pod import Pod
from qcnn.trainer.errors import ConfigError

# The Service's port is the tutorial's.
PORT = 5001
_LISTENS = 6006
_TASK = "tensorboard"
_NAME_LABEL = "app.kubernetes.io/name"
# Of deploy/rbac.yaml; it may do nothing in the cluster.
ACCOUNT = "qcnn-tensorboard"
# The pods of trainings let those with this label reach their profilers (deploy/network.yaml).
_CAPTURES = {"qcnn/captures-profiles": "true"}
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
class Board:
    """A TensorBoard of this name that shows what is logged at these addresses, in a pod with these settings.

    It is reached from the cluster alone, or from everywhere if it is `public`.

    Raises:
        ConfigError: the name is none that a Service can have.
    """

    name: str
    addresses: Sequence[str]
    pod: Pod
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


def deployment(board: Board) -> dict[str, Any]:
    """Return the Deployment: one pod, which mirrors its addresses and opens TensorBoard on the copies."""
    shown = ("--listen", "0.0.0.0", "--port", str(_LISTENS), "--wait")
    command = ["python", "-m", "qcnn.cli", "tensorboard", *board.addresses, *shown]
    template = pod_template(board.pod, board.name, Identity(board.name, _TASK), command, speaks_to_api=False)
    labels = selector(board.name)
    # Not qcnn's own label: what guards the ports of trainings would close this one's.
    template["metadata"]["labels"] = {**board.pod.labels, **labels, **_CAPTURES}
    for container in template["spec"]["containers"]:
        if container["name"] == CONTAINER:
            container["ports"] = [{"name": "http", "containerPort": _LISTENS}]
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


def service(board: Board) -> dict[str, Any]:
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
