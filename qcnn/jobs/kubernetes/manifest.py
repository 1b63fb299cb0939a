"""Common parts of the manifests of jobs: labels, annotations and the pod template."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from qcnn.jobs.job import LABEL_LENGTH, JobIdentity, run_label, slug
from qcnn.jobs.kubernetes.api import JOBS, Resource
from qcnn.jobs.pod_settings import PodSettings
from qcnn.monitoring.logs import JOB_VARIABLE

Manifest = dict[str, Any]

# Labels that select the objects of qcnn, of a run, of a task, and of the job whose model a prediction Job uses.
OWN = {"app.kubernetes.io/managed-by": "qcnn"}
RUN_LABEL = "app.kubernetes.io/instance"
TASK_LABEL = "app.kubernetes.io/component"
JOB_LABEL = "app.kubernetes.io/part-of"
# Kueue (kueue.x-k8s.io) suspends a job with this label until the LocalQueue of this name admits it.
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
# Full name of the run. A label value has at most 63 ASCII characters, so a label alone does not identify a run.
RUN_ANNOTATION = "qcnn/run"
# Digests of the training, which is part of the job's name, and of the settings with which it runs (`qcnn.jobs.job`).
TRAINING_ANNOTATION = "qcnn/training-sha256"
HASH_ANNOTATION = "qcnn/spec-sha256"


def labels(identity: JobIdentity) -> dict[str, str]:
    """Return the labels of all objects of a training job."""
    task = slug(identity.task)[:LABEL_LENGTH].strip("-")
    return {**OWN, RUN_LABEL: run_label(identity.run), TASK_LABEL: task}


def queue_label(queue: str) -> dict[str, str]:
    """Return the label of a job in a queue, or no label without a queue.

    Pods must not have the label, because Kueue would queue them separately.
    """
    return {QUEUE_LABEL: queue} if queue else {}


def annotations(identity: JobIdentity) -> dict[str, str]:
    """Return the annotations of all objects of a training job."""
    return {RUN_ANNOTATION: identity.run}


def run_of(metadata: dict[str, Any]) -> str | None:
    """Return the name of the run of an object, or None without such an annotation."""
    return annotation(metadata, RUN_ANNOTATION)


def annotation(metadata: dict[str, Any], name: str) -> str | None:
    """Return an annotation of an object, or None if it does not exist."""
    value: str | None = metadata.get("annotations", {}).get(name)
    return value


# The training operator identifies the training container by this name.
CONTAINER = "tensorflow"
# A worker exits immediately on SIGTERM, unless it hangs.
_GRACE_SECONDS = 10
# Group of the image's user. Without it, processes have the group of root and cannot write to volumes of root.
_GROUP_ID = 10001
# Checkpoints, events and dataset copies need megabytes. The limit protects the disk of the node.
_TEMPORARY_LIMIT = "10Gi"
# GKE node labels for the GPU model and for Spot nodes. The latter is also the usual key of the taint of Spot nodes
# (cloud.google.com/kubernetes-engine/docs/concepts/spot-vms).
_ACCELERATOR_LABEL = "cloud.google.com/gke-accelerator"
_SPOT_LABEL = "cloud.google.com/gke-spot"


def pod_template(
    pod: PodSettings, name: str, identity: JobIdentity, command: Sequence[str], *, mounts_token: bool
) -> dict[str, Any]:
    """Return the pod template (core/v1 PodTemplateSpec) of a process of a job.

    The template meets the Pod Security Standard "restricted" if the volumes of `pod` do.

    Args:
        pod: Pod settings.
        name: Name of the job.
        identity: Identity of the job, for labels and annotations.
        command: Command of the container.
        mounts_token: Whether the token of the service account is mounted.
    """
    # Istio's proxy would keep running after the process has exited, and break its connections. Old releases of Istio
    # read the annotation.
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
            # The default policy checks the owner of every file of a volume at each start.
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
        # Explicit even if false, because the setting of the service account is the default.
        "spec": {key: value for key, value in spec.items() if value} | {"automountServiceAccountToken": mounts_token},
    }


def _nodes(pod: PodSettings) -> dict[str, str]:
    accelerator = {_ACCELERATOR_LABEL: pod.accelerator} if pod.accelerator else {}
    return accelerator | ({_SPOT_LABEL: "true"} if pod.spot else {})


def _container(pod: PodSettings, name: str, command: Sequence[str], mounts: Sequence[str]) -> dict[str, Any]:
    gpus = {"nvidia.com/gpu": str(pod.gpus)} if pod.gpus else {}
    return {
        "name": CONTAINER,
        "image": pod.process_image,
        "imagePullPolicy": pod.pull_policy,
        "command": list(command),
        "env": _environment_variables(pod, name),
        "resources": {
            "requests": {"cpu": pod.cpu, "memory": pod.memory, **gpus},
            # CPU has no limit, so that a process can use idle CPUs of the node.
            "limits": {"memory": pod.memory, **gpus},
        },
        "securityContext": {
            # Not set for the pod, because its infrastructure container has no user and would reject a group.
            "runAsGroup": _GROUP_ID,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": f"volume-{number}", "mountPath": path} for number, path in enumerate(mounts)],
    }


def _environment_variables(pod: PodSettings, name: str) -> list[dict[str, Any]]:
    plain = {**pod.process_variables, JOB_VARIABLE: name}
    secret = [
        {"name": variable, "valueFrom": {"secretKeyRef": dict(zip(("name", "key"), source.split("/"), strict=True))}}
        for variable, source in pod.secrets.items()
    ]
    return [*({"name": key, "value": value} for key, value in plain.items()), *secret]


def anti_affinity(selector: Mapping[str, str]) -> Manifest:
    """Return the preference for nodes without another pod with these labels."""
    term = {"labelSelector": {"matchLabels": dict(selector)}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
        }
    }


def spread_constraint(key: str, selector: Mapping[str, str]) -> Manifest:
    """Return the preference to spread the pods with these labels over the values of a node label."""
    return {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(selector)},
    }


@dataclasses.dataclass(frozen=True)
class JobKind:
    """Kubernetes kind of a job.

    Attributes:
        name: Kind.
        resource: Resource type of the API.
        succeeded: Condition type of a successful object.
        pod_label: Pod label with the name of the object.
        role_label: Pod label with the role of the process.
        index_label: Pod label with the index of the process, or None if the index is always 0.
        many: Whether the object can have several processes, so that log lines need the name of the process.
        container: Name of the container of a process.
        pods_failed: Part of the message with which the operator fails a job because of a pod, although restarts are
            left. Empty: it never does.
        owns_pods: Whether the object is the owner of its pods, or only of their owners.
        dependents: Resource types by kind of the further objects that belong to the object, besides pods, Jobs,
            Services and Leases.
        foreground: Whether the object can be deleted after its dependents.
        attempt_label: Pod label with the number of restarts of the job before this pod. Empty: a pod that replaces
            another one has its name.
    """

    name: str
    resource: Resource
    succeeded: str
    pod_label: str
    role_label: str
    index_label: str | None
    many: bool
    container: str = CONTAINER
    pods_failed: str = ""
    owns_pods: bool = True
    dependents: Mapping[str, Resource] = dataclasses.field(default_factory=dict)
    foreground: bool = True
    attempt_label: str = ""

    def role_of(self, labels: Mapping[str, str]) -> str:
        """Return the role of the process in a pod from its labels, or an empty string if it has none."""
        return labels.get(self.role_label, "")


JOB = JobKind("Job", JOBS, "Complete", "batch.kubernetes.io/job-name", TASK_LABEL, index_label=None, many=False)


def condition(job: dict[str, Any], kind: str) -> str | None:
    """Return the message of a condition (Succeeded, Failed, ...) of a job, or None if it is not true."""
    for each in job.get("status", {}).get("conditions", ()):
        if each["type"] == kind and each["status"] == "True":
            return str(each.get("message") or kind)
    return None


def is_suspended(job: dict[str, Any]) -> bool:
    """Return whether a training job or Job (batch/v1) is suspended, for example by a queue, and has no pods."""
    spec = job["spec"]
    return bool(spec.get("runPolicy", spec).get("suspend"))
