"""Brings a TensorBoard to a cluster, and takes it away again."""

import contextlib
from typing import Any

from qcnn.jobs.kubernetes.api import DEPLOYMENTS, PODS, SERVICES, Api
from qcnn.jobs.kubernetes.identity import OWN, TASK_LABEL
from qcnn.jobs.kubernetes.kinds import Kind, condition
from qcnn.jobs.kubernetes.pods import read
from qcnn.jobs.tensorboard.manifest import DEADLINE_SECONDS, Board, deployment, selector, service
from qcnn.trainer.errors import ArtifactError, ConfigError, one_line

_KIND = Kind("Deployment", DEPLOYMENTS, "Available", "", TASK_LABEL, index_label=None, many=False)


def deploy(api: Api, board: Board) -> None:
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
            if board.name in objects and _is_up(api, objects[board.name]):
                return


def undeploy(api: Api, name: str) -> None:
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


def _is_up(api: Api, found: dict[str, Any]) -> bool:
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
        raise ConfigError(f"tensorboard: its pod cannot be created ({one_line(failure)}). Given: {name}")
    for each in status.get("conditions", ()):
        # What was said of an earlier pod stands there until one of the new ones is made.
        if each["type"] == "Progressing" and each["status"] == "False" and status.get("updatedReplicas"):
            pods = [read(pod, _KIND) for pod in api.find(PODS, labelSelector=_label_selector(name))]
            why = "; ".join(pod.trouble for pod in pods if pod.trouble) or "it does not answer"
            raise ConfigError(f"tensorboard: not started after {DEADLINE_SECONDS} s: {why}. Given: {name}")
    return False
