"""What manifests of jobs share: labels and annotations by which they are found, and the template of their pods."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from qcnn.jobs.job import LABEL_LENGTH, JobIdentity, run_label, slug
from qcnn.jobs.kubernetes.api import JOBS, Resource
from qcnn.jobs.pod_settings import PodSettings
from qcnn.monitoring.logs import JOB_VARIABLE

# By these labels qcnn finds its own objects, and those of a run, of a task, and of a TFJob that they predict with.
OWN = {"app.kubernetes.io/managed-by": "qcnn"}
RUN_LABEL = "app.kubernetes.io/instance"
TASK_LABEL = "app.kubernetes.io/component"
JOB_LABEL = "app.kubernetes.io/part-of"
# Kueue (kueue.x-k8s.io) suspends a job with this label until the LocalQueue of this name lets it go on.
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
# The run's full name. A label holds 63 characters of ASCII, so it only narrows a search.
RUN_ANNOTATION = "qcnn/run"
# Hashes of what is trained, by which a job is named, and of the whole object, by which it is the same or another one.
TRAINING_ANNOTATION = "qcnn/training-sha256"
HASH_ANNOTATION = "qcnn/spec-sha256"


def labels(identity: JobIdentity) -> dict[str, str]:
    """Return the labels of whatever belongs to a training."""
    task = slug(identity.task)[:LABEL_LENGTH].strip("-")
    return {**OWN, RUN_LABEL: run_label(identity.run), TASK_LABEL: task}


def queue_label(queue: str) -> dict[str, str]:
    """Return the label of a job that waits in a queue, none without one; a pod with it would be queued by itself."""
    return {QUEUE_LABEL: queue} if queue else {}


def annotations(identity: JobIdentity) -> dict[str, str]:
    """Return the annotations of whatever belongs to a training."""
    return {RUN_ANNOTATION: identity.run}


def run_of(metadata: dict[str, Any]) -> str | None:
    """Return the name of the run that an object of ours belongs to, None where it does not say."""
    return annotation(metadata, RUN_ANNOTATION)


def annotation(metadata: dict[str, Any], name: str) -> str | None:
    """Return an annotation of an object, None where it has none of that name."""
    found: str | None = metadata.get("annotations", {}).get(name)
    return found


# The operator finds the training's container by this name.
CONTAINER = "tensorflow"
# A worker ends at once when it is told to; one that does not is hanging.
_GRACE_SECONDS = 10
# The group of the image's user. Without it processes have root's group, and cannot write to root's volumes.
_GROUP_ID = 10001
# Checkpoints, events and copies of datasets take megabytes; nothing else may fill the node's disk.
_TEMPORARY_LIMIT = "10Gi"
# By these labels GKE tells which GPUs a node has, and that it may be taken back at any moment; the second is also the
# usual key of a taint of such nodes (cloud.google.com/kubernetes-engine/docs/concepts/spot-vms).
_ACCELERATOR_LABEL = "cloud.google.com/gke-accelerator"
_SPOT_LABEL = "cloud.google.com/gke-spot"


def pod_template(
    pod: PodSettings, name: str, identity: JobIdentity, command: Sequence[str], *, mounts_token: bool
) -> dict[str, Any]:
    """Return the pod template (core/v1 PodTemplateSpec) of a process of the job `name`.

    It meets the Pod Security Standard "restricted" if its `volumes` do. It gets the token of its service account only
    if it `mounts_token`.
    """
    # Istio's proxy would outlive the training and break its connections; old releases of Istio read the annotation.
    no_sidecar = {"sidecar.istio.io/inject": "false"}
    volumes: list[tuple[str, Mapping[str, Any]]] = [
        ("/tmp", {"emptyDir": {"sizeLimit": _TEMPORARY_LIMIT}}),
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
            "fsGroup": _GROUP_ID,
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
        "spec": {key: value for key, value in spec.items() if value} | {"automountServiceAccountToken": mounts_token},
    }


def _nodes(pod: PodSettings) -> dict[str, str]:
    accelerator = {_ACCELERATOR_LABEL: pod.accelerator} if pod.accelerator else {}
    return accelerator | ({_SPOT_LABEL: "true"} if pod.spot else {})


def _container(pod: PodSettings, name: str, command: Sequence[str], mounts: Sequence[str]) -> dict[str, Any]:
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
            "runAsGroup": _GROUP_ID,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": f"volume-{number}", "mountPath": path} for number, path in enumerate(mounts)],
    }


def _environment(pod: PodSettings, name: str) -> list[dict[str, Any]]:
    plain = {**pod.process_variables, JOB_VARIABLE: name}
    secret = [
        {"name": variable, "valueFrom": {"secretKeyRef": dict(zip(("name", "key"), source.split("/"), strict=True))}}
        for variable, source in pod.secrets.items()
    ]
    return [*({"name": key, "value": value} for key, value in plain.items()), *secret]


@dataclasses.dataclass(frozen=True)
class JobKind:
    """A kind, the condition in which it has succeeded, and the labels of its pods.

    `pod_label` names the object on its pods, `role_label` the role of a process, and `index_label` its index, without
    which every index is 0. `many`: whether it is made of several processes, which need names.
    """

    name: str
    resource: Resource
    succeeded: str
    pod_label: str
    role_label: str
    index_label: str | None
    many: bool


JOB = JobKind("Job", JOBS, "Complete", "batch.kubernetes.io/job-name", TASK_LABEL, index_label=None, many=False)


def condition(job: dict[str, Any], kind: str) -> str | None:
    """Return the message of a condition (Succeeded, Failed, ...) that a job is in, None if it is not in it."""
    for found in job.get("status", {}).get("conditions", ()):
        if found["type"] == kind and found["status"] == "True":
            return str(found.get("message") or kind)
    return None


def is_suspended(job: dict[str, Any]) -> bool:
    """Whether a TFJob or a Job (batch/v1) is suspended, as a queue does until there is room; it has no pods then."""
    spec = job["spec"]
    return bool(spec.get("runPolicy", spec).get("suspend"))
