"""The pod template of one process, whatever creates its pods: a pure function of its description."""

from collections.abc import Mapping, Sequence
from typing import Any

from qcnn.jobs.kubernetes.identity import annotations, labels
from qcnn.jobs.naming import Identity
from qcnn.jobs.pod import Pod
from qcnn.trainer.monitoring.variables import JOB_VARIABLE

# The operator finds the training's container by this name.
CONTAINER = "tensorflow"
# A worker ends at once when it is told to; one that does not is hanging.
_GRACE_SECONDS = 10
# The group of the image's user. Without it processes have root's group, and cannot write to root's volumes.
_GROUP = 10001
# Checkpoints, events and copies of datasets take megabytes; nothing else may fill the node's disk.
_TEMPORARY = "10Gi"
# By these labels GKE tells which GPUs a node has, and that it may be taken back at any moment; the second is also the
# usual key of a taint of such nodes (cloud.google.com/kubernetes-engine/docs/concepts/spot-vms).
_ACCELERATOR_LABEL = "cloud.google.com/gke-accelerator"
_SPOT_LABEL = "cloud.google.com/gke-spot"


def pod_template(
    pod: Pod, name: str, identity: Identity, command: Sequence[str], *, speaks_to_api: bool
) -> dict[str, Any]:
    """Return the pod template (core/v1 PodTemplateSpec) of a process of the job `name`.

    It meets the Pod Security Standard "restricted" if its `volumes` do. It gets the token of its service account only
    if it `speaks_to_api`.
    """
    # Istio's proxy would outlive the training and break its connections; old releases of Istio read the annotation.
    no_sidecar = {"sidecar.istio.io/inject": "false"}
    volumes: list[tuple[str, Mapping[str, Any]]] = [
        ("/tmp", {"emptyDir": {"sizeLimit": _TEMPORARY}}),
        *pod.volumes.items(),
    ]
    spec: dict[str, Any] = {
        "serviceAccountName": pod.service_account,
        "imagePullSecrets": [{"name": secret} for secret in pod.pull_secrets],
        "priorityClassName": pod.priority_class,
        "nodeSelector": _nodes(pod) | dict(pod.node_selector),
        "tolerations": [
            *(dict(toleration) for toleration in pod.tolerations),
            *([{"key": _SPOT_LABEL, "operator": "Exists"}] if pod.spot else ()),
        ],
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "fsGroup": _GROUP,
            # Otherwise the owner of every file of a large volume would be looked at on each start.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(pod, name, command, [path for path, _ in volumes])],
        "volumes": [{"name": f"volume-{number}", **source} for number, (_, source) in enumerate(volumes)],
    }
    return {
        "metadata": {
            "labels": {**pod.labels, **labels(identity), **no_sidecar},
            "annotations": {**annotations(identity), **no_sidecar},
        },
        # Written even if false: the service account's own setting would count otherwise.
        "spec": {key: value for key, value in spec.items() if value} | {"automountServiceAccountToken": speaks_to_api},
    }


def _nodes(pod: Pod) -> dict[str, str]:
    accelerator = {_ACCELERATOR_LABEL: pod.accelerator} if pod.accelerator else {}
    return accelerator | ({_SPOT_LABEL: "true"} if pod.spot else {})


def _container(pod: Pod, name: str, command: Sequence[str], mounts: Sequence[str]) -> dict[str, Any]:
    gpus = {"nvidia.com/gpu": str(pod.gpus)} if pod.gpus else {}
    return {
        "name": CONTAINER,
        "image": pod.image,
        "imagePullPolicy": pod.pull_policy,
        "command": list(command),
        "env": _environment(pod, name),
        "resources": {
            "requests": {"cpu": pod.cpu, "memory": pod.memory, **gpus},
            # CPU has no limit: using idle time of the node takes nothing from anybody.
            "limits": {"memory": pod.memory, **gpus},
        },
        "securityContext": {
            # Not set for the pod: its own infrastructure container has no user, without which a group is refused.
            "runAsGroup": _GROUP,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": f"volume-{number}", "mountPath": path} for number, path in enumerate(mounts)],
    }


def _environment(pod: Pod, name: str) -> list[dict[str, Any]]:
    plain = {**pod.process_variables, JOB_VARIABLE: name}
    secret = [
        {"name": variable, "valueFrom": {"secretKeyRef": dict(zip(("name", "key"), source.split("/"), strict=True))}}
        for variable, source in pod.secrets.items()
    ]
    return [*({"name": key, "value": value} for key, value in plain.items()), *secret]
