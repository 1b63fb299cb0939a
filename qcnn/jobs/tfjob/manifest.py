"""A training job as a TFJob of the training operator (v1.9.4): manifests, by pure functions."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from qcnn.errors import ConfigError
from qcnn.jobs.job import Job, JobIdentity, digest
from qcnn.jobs.job import name as job_name
from qcnn.jobs.kubernetes.api import Resource
from qcnn.jobs.kubernetes.manifest import (
    HASH_ANNOTATION,
    QUEUE_LABEL,
    RUN_ANNOTATION,
    TRAINING_ANNOTATION,
    JobKind,
    annotations,
    labels,
    pod_template,
    queue_label,
    run_of,
)
from qcnn.jobs.pod_settings import PodSettings
from qcnn.monitoring.logs import JOB_VARIABLE, PORT_VARIABLE

TFJOBS = Resource("/apis/kubeflow.org/v1", "tfjobs")
# Set by the operator on every pod.
JOB_NAME_LABEL = "training.kubeflow.org/job-name"
_ROLE_LABEL = "training.kubeflow.org/replica-type"
_INDEX_LABEL = "training.kubeflow.org/replica-index"
TFJOB = JobKind("TFJob", TFJOBS, "Succeeded", JOB_NAME_LABEL, _ROLE_LABEL, _INDEX_LABEL, many=True)
REPLICA_TYPES = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}


def pod_name(job: dict[str, Any], role: str, index: int) -> str:
    """Return the name that the operator gives the pod of a process (pkg/core GenGeneralName)."""
    return f"{job['metadata']['name']}-{role}-{index}"


Manifest = dict[str, Any]

CLUSTER_PORT = 2222
PROFILER_PORT = 2223
# What the port of a process is called at which it serves its metrics.
METRICS_PORT = "metrics"
# The seconds without a renewal of its Lease after which a TFJob ends; one without it needs no launcher.
LEASE_ANNOTATION = "qcnn/lease-seconds"
# How often the processes of a training were started again before this TFJob, by its launcher.
RESTARTS_ANNOTATION = "qcnn/restarts"
_RESERVED_PORTS = (CLUSTER_PORT, PROFILER_PORT)
_LEASE_WATCH = ("python", "-m", "qcnn.jobs.tfjob.lease_watch")


@dataclasses.dataclass(frozen=True)
class JobTimeouts:
    """How long a job may train, is kept after its end, and outlives its launcher; in seconds.

    Without `lease_seconds` it does not need a launcher.
    """

    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int = 3600
    lease_seconds: int | None = 600


def tfjob(job: Job, identity: JobIdentity, policy: JobTimeouts, owner: Mapping[str, str] | None = None) -> Manifest:
    """Return the TFJob of a training job.

    Its name, by which its outputs lie in a folder, follows from what is trained: the run, task and iteration, the
    command, and how many processes run it. What they are given (image, memory, labels, ...) and the policy are no part
    of it, so a training that needed more memory goes on where it was.

    The addresses of its outputs, in which $(QCNN_JOB) stands for its name, and the time that it outlives its launcher
    are annotations.

    `owner` is an ownerReference (apiVersion, kind, name, uid) to what the job is deleted with.

    A job in a queue is not suspended here: Kueue does so when the job is created, and what applies this manifest again
    would suspend a job that runs.

    Raises:
        ConfigError: the job has no pod, an unknown role, no process that could lead it, an output that would be gone
            with its pods, or metrics on a port that is taken.
    """
    counts = {role: count for role, count in job.replicas.items() if count}
    pod = _check_pod(job, counts)
    training = digest([dataclasses.asdict(identity), job.argv, counts])
    manifest = _manifest(job, pod, counts, identity, policy, job_name(identity, training))
    metadata = manifest["metadata"]
    metadata["annotations"] |= {TRAINING_ANNOTATION: training, HASH_ANNOTATION: digest(manifest)}
    if policy.lease_seconds is not None:
        # Added after the hash: how pods watch their Lease is no part of what the job is.
        for spec in manifest["spec"]["tfReplicaSpecs"].values():
            (container,) = spec["template"]["spec"]["containers"]
            watch = ("--lease", metadata["name"], "--account", pod.service_account, "--seconds", policy.lease_seconds)
            container["command"] = [*_LEASE_WATCH, *map(str, watch), "--", *container["command"]]
    if owner:
        metadata["ownerReferences"] = [dict(owner)]
    return manifest


def restarted(manifest: Manifest, restarts: int) -> Manifest:
    """Return the manifest of a TFJob that replaces another one, after so many restarts; it is the same training."""
    metadata = manifest["metadata"]
    annotations = {**metadata["annotations"], RESTARTS_ANNOTATION: str(restarts)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def output_annotation(output: str) -> str:
    """Return the name of the annotation that holds the address of an output."""
    return f"qcnn/{output}"


def _check_pod(job: Job, counts: Mapping[str, int]) -> PodSettings:
    """Return the pod of a job that can be a TFJob, with so many processes of each role; refuse any other job."""
    if job.pod is None:
        raise ConfigError("pod: a job on Kubernetes needs an image. Given: none")
    unknown = sorted(set(counts) - set(REPLICA_TYPES))
    if unknown or not counts.keys() & {"chief", "worker"} or counts.get("chief", 0) > 1:
        raise ConfigError(
            f"replicas: must be of {', '.join(REPLICA_TYPES)}, with a worker or one chief. Given: {dict(job.replicas)}"
        )
    for address in job.outputs.values():
        if address.startswith("/") and not job.pod.is_persistent(address):
            raise ConfigError(
                "output: must be in a bucket, or below the path of a volume that outlives its pods, such as a "
                f"persistentVolumeClaim (pod.volumes). Given: {address.partition(f'/$({JOB_VARIABLE})')[0]}"
            )
    if (port := job.pod.metrics_port) in _RESERVED_PORTS:
        taken = " and ".join(map(str, _RESERVED_PORTS))
        raise ConfigError(f"pod.metrics_port: TensorFlow itself takes {taken}; choose another one. Given: {port}")
    return job.pod


def profiler_service(job: Manifest) -> Manifest:
    """Return the Service by which TensorBoard reaches the leading process' profiler, of a TFJob or its manifest.

    It goes with a TFJob that is as the API returns it. The operator's own Services have the cluster port only.
    """
    name = job["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _owned_metadata(job, f"{name}-profiler"),
        "spec": {
            # The operator gives this role to the chief, or to worker 0 where there is none.
            "selector": {JOB_NAME_LABEL: name, "training.kubeflow.org/job-role": "master"},
            "ports": [{"name": "profiler", "port": PROFILER_PORT, "targetPort": PROFILER_PORT}],
        },
    }


def lease(job: Manifest, holder: str, seconds: int, renewed: str) -> Manifest:
    """Return the Lease (coordination.k8s.io/v1) that a launcher renews, of a TFJob as the API returns it.

    `renewed` is a time of RFC 3339 with six digits of its fraction.
    """
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": _owned_metadata(job, job["metadata"]["name"]),
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed},
    }


def _owned_metadata(job: Manifest, name: str) -> Manifest:
    metadata = job["metadata"]
    run = run_of(metadata)
    owned: Manifest = {
        "name": name,
        # Only the job itself is queued.
        "labels": {key: value for key, value in metadata["labels"].items() if key != QUEUE_LABEL},
        "annotations": {RUN_ANNOTATION: run} if run else {},
    }
    if uid := metadata.get("uid"):
        owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": metadata["name"], "uid": uid}
        owned["ownerReferences"] = [owner]
    return owned


def _manifest(
    job: Job, pod: PodSettings, counts: Mapping[str, int], identity: JobIdentity, policy: JobTimeouts, name: str
) -> Manifest:
    run_policy: Manifest = {
        # With ExitCode the operator counts nothing: 0 ends the job at the first loss, more is without effect, and the
        # launcher counts.
        "backoffLimit": job.restarts,
        # Pods that have ended stay, to be looked at.
        "cleanPodPolicy": "Running",
        "ttlSecondsAfterFinished": policy.ttl_seconds_after_finished,
    }
    if policy.active_deadline_seconds is not None:
        run_policy["activeDeadlineSeconds"] = policy.active_deadline_seconds
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {
            "name": name,
            "labels": {**pod.labels, **queue_label(pod.queue), **labels(identity)},
            "annotations": annotations(identity) | _output_annotations(job, policy, name),
        },
        "spec": {
            "runPolicy": run_policy,
            # The job succeeds with its leading process, which writes all outputs. With AllWorkers, a worker that is
            # lost after that would be started again, and wait for ever for a leader that has ended.
            "successPolicy": "",
            "tfReplicaSpecs": {
                REPLICA_TYPES[role]: {
                    "replicas": count,
                    "restartPolicy": "ExitCode",
                    "template": _template(job, pod.for_role(role), identity, policy, name),
                }
                for role, count in counts.items()
            },
        },
    }


def _output_annotations(job: Job, policy: JobTimeouts, name: str) -> dict[str, str]:
    """Return the annotations with what else could only be read out of the job's command."""
    outputs = {
        output_annotation(output): address.replace(f"$({JOB_VARIABLE})", name)
        for output, address in job.outputs.items()
    }
    return outputs if policy.lease_seconds is None else {**outputs, LEASE_ANNOTATION: str(policy.lease_seconds)}


def _template(job: Job, pod: PodSettings, identity: JobIdentity, policy: JobTimeouts, name: str) -> Manifest:
    made = pod_template(pod, name, identity, job.argv, mounts_token=policy.lease_seconds is not None)
    made["spec"]["affinity"] = _anti_affinity(name)
    if pod.topology_spread:
        made["spec"]["topologySpreadConstraints"] = [_spread_constraint(pod.topology_spread, name)]
    container = made["spec"]["containers"][0]
    container["ports"] = [
        {"name": "tfjob-port", "containerPort": CLUSTER_PORT},
        {"name": "profiler", "containerPort": PROFILER_PORT},
    ]
    if pod.metrics_port is not None:
        container["ports"].append({"name": METRICS_PORT, "containerPort": pod.metrics_port})
        container["env"].append({"name": PORT_VARIABLE, "value": str(pod.metrics_port)})
    return made


def _anti_affinity(name: str) -> Manifest:
    """Return the affinity to nodes without another process of the job; pods never wait for such a node."""
    term = {"labelSelector": {"matchLabels": {JOB_NAME_LABEL: name}}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
        }
    }


def _spread_constraint(key: str, name: str) -> Manifest:
    """Return the constraint that spreads a job's processes over the values of a label of nodes; no pod waits for it."""
    return {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {JOB_NAME_LABEL: name}},
    }
