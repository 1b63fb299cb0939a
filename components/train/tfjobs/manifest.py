"""A training job as a TFJob: manifests and names, by pure functions.

The contract is training-operator v1.9.4: pkg/apis/kubeflow.org/v1 (the types), pkg/controller.v1/tensorflow and
pkg/controller.v1/common (what they do), pkg/webhooks/tensorflow (what is refused).
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from components.train.job import Job, Pod
from trainer.errors import ConfigError

Manifest = dict[str, Any]

# The operator adds "-evaluator-0" for pods and Services, whose names end at 63.
NAME_LENGTH = 50
# The operator finds the training's container by this name.
CONTAINER = "tensorflow"
CLUSTER_PORT = 2222
PROFILER_PORT = 2223
HASH_ANNOTATION = "spec-sha256"
# Set by the operator on every pod.
JOB_NAME_LABEL = "training.kubeflow.org/job-name"
ROLE_LABEL = "training.kubeflow.org/replica-type"
INDEX_LABEL = "training.kubeflow.org/replica-index"

# Holds the TFJob's name in every container; Kubernetes puts it in for $(QCNN_JOB) in a job's argv.
JOB_VARIABLE = "QCNN_JOB"

_REPLICA_TYPES = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_LABEL_LENGTH = 63
# A worker ends at once when it is told to; what cannot any more need not be waited for.
_GRACE_SECONDS = 10
_SWITCH = ("python", "-m", "components.train.tfjobs.switch")


@dataclasses.dataclass(frozen=True)
class Identity:
    """Which training this is: run, task in it, iteration of a loop around that; one training for each, ever."""

    run: str
    task: str
    iteration: int = 0


@dataclasses.dataclass(frozen=True)
class Policy:
    """How long a job may train, is kept after its end, and outlives its launcher; in seconds.

    Without `switch_seconds` it does not need a launcher.
    """

    active_seconds: int | None = None
    keep_seconds: int = 3600
    switch_seconds: int | None = 600


def tfjob(job: Job, identity: Identity, policy: Policy, owner: Mapping[str, str] | None = None) -> Manifest:
    """Return the TFJob of a training job; its name follows from all that is in it, but not from its owner.

    `owner` is an ownerReference (apiVersion, kind, name, uid) to what the job is deleted with.

    Raises:
        ConfigError: the job has no pod, an unknown role, or no process that could lead it.
    """
    pod = _checked(job)
    unnamed = _manifest(job, pod, identity, policy, "")
    # Labels hold the identity, but cut.
    described = json.dumps([dataclasses.asdict(identity), unnamed], sort_keys=True)
    digest = hashlib.sha256(described.encode()).hexdigest()
    manifest = _manifest(job, pod, identity, policy, _name(identity, digest))
    manifest["metadata"]["annotations"] = {HASH_ANNOTATION: digest}
    if owner:
        manifest["metadata"]["ownerReferences"] = [dict(owner)]
    return manifest


def condition(job: Manifest, kind: str) -> str | None:
    """Return what the operator says of a condition (Succeeded, Failed, ...) that a TFJob is in, None if it is not."""
    for found in job.get("status", {}).get("conditions", ()):
        if found["type"] == kind and found["status"] == "True":
            return str(found.get("message") or kind)
    return None


def profiler_service(job: Manifest) -> Manifest:
    """Return the Service by which TensorBoard reaches the leading process' profiler, of a TFJob as the API returns it.

    The operator's own Services have the cluster port only.
    """
    name = job["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _owned(job, f"{name}-profiler"),
        "spec": {
            # The operator gives this role to the chief, or to worker 0 where there is none.
            "selector": {JOB_NAME_LABEL: name, "training.kubeflow.org/job-role": "master"},
            "ports": [{"name": "profiler", "port": PROFILER_PORT, "targetPort": PROFILER_PORT}],
        },
    }


def lease(job: Manifest, holder: str, seconds: int, renewed: str) -> Manifest:
    """Return the Lease that a launcher renews, of a TFJob as the API returns it (coordination.k8s.io/v1).

    `renewed` is a time of RFC 3339 with six digits of its fraction.
    """
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": _owned(job, job["metadata"]["name"]),
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed},
    }


def _checked(job: Job) -> Pod:
    if job.pod is None:
        raise ConfigError("pod: a job on Kubernetes needs an image. Given: none")
    given = {role: count for role, count in job.replicas.items() if count}
    unknown = sorted(set(given) - set(_REPLICA_TYPES))
    if unknown or not given.keys() & {"chief", "worker"} or given.get("chief", 0) > 1:
        raise ConfigError(
            f"replicas: must be of {', '.join(_REPLICA_TYPES)}, with a worker or one chief. Given: {dict(job.replicas)}"
        )
    return job.pod


def _name(identity: Identity, digest: str) -> str:
    """Return a DNS-1035 label, which the operator's webhook wants: what can be read is cut, the hash is not."""
    end = f"-{identity.iteration}-{digest[:8]}"
    task = _slug(identity.task)[:16].strip("-")
    run = _slug(identity.run)[: NAME_LENGTH - len(end) - len(task) - len("r-")].strip("-")
    name = f"{run}-{task}{end}"
    return name if name[0].isalpha() else f"r{name}"


def _slug(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")


def _labels(identity: Identity) -> dict[str, str]:
    """Return the labels by which jobs of a run are found, on whatever belongs to one."""
    return {
        "app.kubernetes.io/managed-by": "qcnn",
        "app.kubernetes.io/instance": _slug(identity.run)[:_LABEL_LENGTH].strip("-"),
        "app.kubernetes.io/component": _slug(identity.task)[:_LABEL_LENGTH].strip("-"),
    }


def _owned(job: Manifest, name: str) -> Manifest:
    metadata = job["metadata"]
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {"name": name, "labels": metadata["labels"], "ownerReferences": [owner]}


def _manifest(job: Job, pod: Pod, identity: Identity, policy: Policy, name: str) -> Manifest:
    run_policy: Manifest = {
        # Without effect on ExitCode but for 0, which ends the job at the first loss; the launcher counts.
        "backoffLimit": job.restarts,
        # Those that failed stay, to be looked at.
        "cleanPodPolicy": "Running",
        "ttlSecondsAfterFinished": policy.keep_seconds,
    }
    if policy.active_seconds is not None:
        run_policy["activeDeadlineSeconds"] = policy.active_seconds
    template = _template(job, pod, identity, policy, name)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name, "labels": {**pod.labels, **_labels(identity)}},
        "spec": {
            "runPolicy": run_policy,
            # The leading process writes all that there is, last of all. AllWorkers would have a worker that is lost
            # after that started again, to wait for ever for a leader that has ended.
            "successPolicy": "",
            "tfReplicaSpecs": {
                _REPLICA_TYPES[role]: {"replicas": count, "restartPolicy": "ExitCode", "template": template}
                for role, count in job.replicas.items()
                if count
            },
        },
    }


def _template(job: Job, pod: Pod, identity: Identity, policy: Policy, name: str) -> Manifest:
    # Istio's proxy would outlive the training, and break its connections; old releases read the annotation.
    no_sidecar = {"sidecar.istio.io/inject": "false"}
    volumes: list[tuple[str, Mapping[str, Any]]] = [("/tmp", {"emptyDir": {}}), *pod.volumes.items()]
    spec: Manifest = {
        "serviceAccountName": pod.service_account,
        "imagePullSecrets": [{"name": secret} for secret in pod.pull_secrets],
        "nodeSelector": dict(pod.node_selector),
        "tolerations": [dict(toleration) for toleration in pod.tolerations],
        "affinity": _spread(name),
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(job, pod, policy, name, [path for path, _ in volumes])],
        "volumes": [{"name": f"volume-{number}", **source} for number, (_, source) in enumerate(volumes)],
    }
    return {
        "metadata": {"labels": {**pod.labels, **_labels(identity), **no_sidecar}, "annotations": no_sidecar},
        "spec": {key: value for key, value in spec.items() if value},
    }


def _container(job: Job, pod: Pod, policy: Policy, name: str, mounts: list[str]) -> Manifest:
    gpus = {"nvidia.com/gpu": str(pod.gpus)} if pod.gpus else {}
    environment = {**pod.environment, "QCNN_IMAGE": pod.image, JOB_VARIABLE: name}
    command = list(job.argv)
    if policy.switch_seconds is not None:
        command = [*_SWITCH, "--lease", name, "--seconds", str(policy.switch_seconds), "--", *command]
    return {
        "name": CONTAINER,
        "image": pod.image,
        "imagePullPolicy": pod.pull_policy,
        "command": command,
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "ports": [
            {"name": "tfjob-port", "containerPort": CLUSTER_PORT},
            {"name": "profiler", "containerPort": PROFILER_PORT},
        ],
        "resources": {
            "requests": {"cpu": pod.cpu, "memory": pod.memory, **gpus},
            # No limit of CPU: idle time of the node is not taken from anyone.
            "limits": {"memory": pod.memory, **gpus},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": f"volume-{number}", "mountPath": path} for number, path in enumerate(mounts)],
    }


def _spread(name: str) -> Manifest:
    """Prefer nodes without another process of the job, but never wait for one."""
    term = {"labelSelector": {"matchLabels": {JOB_NAME_LABEL: name}}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
        }
    }
