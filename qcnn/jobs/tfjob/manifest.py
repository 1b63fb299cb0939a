"""Manifests of training jobs as TFJobs of the training operator (v1.9.4)."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from qcnn.errors import ConfigError
from qcnn.jobs.job import JobIdentity, JobSpec, settings_digest, training_digest
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
    """Return the name of the pod of a process, as the operator creates it (pkg/core GenGeneralName).

    Args:
        job: TFJob or its manifest.
        role: Role of the process: chief, worker, ps or evaluator.
        index: Index of the process among those with its role.
    """
    return f"{job['metadata']['name']}-{role}-{index}"


Manifest = dict[str, Any]

CLUSTER_PORT = 2222
PROFILER_PORT = 2223
# Name of the container port for metrics.
METRICS_PORT = "metrics"
# Duration of the Lease in seconds. A TFJob without this annotation needs no launcher.
LEASE_ANNOTATION = "qcnn/lease-seconds"
# Number of restarts before this TFJob, if it replaces another one.
RESTARTS_ANNOTATION = "qcnn/restarts"
_RESERVED_PORTS = (CLUSTER_PORT, PROFILER_PORT)
_LEASE_WATCH = ("python", "-m", "qcnn.jobs.tfjob.lease_watch")


@dataclasses.dataclass(frozen=True)
class JobTimeouts:
    """Timeouts of a TFJob in seconds.

    `lease_seconds` is the time without a renewal of its Lease after which the TFJob ends. None: it needs no launcher.
    """

    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int = 3600
    lease_seconds: int | None = 600

    def changed(self) -> dict[str, Any]:
        """Return the timeouts that are not defaults."""
        return {
            field.name: value
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default
        }


def tfjob(job: JobSpec, identity: JobIdentity, policy: JobTimeouts, owner: Mapping[str, str] | None = None) -> Manifest:
    """Return the TFJob of a training job.

    The name of the TFJob is also that of its output folder. It is derived from run, task, iteration, training values
    and number of processes, not from pod settings and timeouts. A job that is resubmitted with more memory therefore
    resumes from its last checkpoint. The URIs of the outputs, with the name in place of $(QCNN_JOB), and the Lease
    duration are annotations.

    A queued job is not suspended in this manifest. Kueue suspends it at creation, and a manifest that is applied again
    would suspend an active job.

    Args:
        job: Training job.
        identity: Run, task and iteration of the job.
        policy: Timeouts of the job.
        owner: Owner reference (apiVersion, kind, name, uid) of the object with which the job is deleted.

    Raises:
        ConfigError: If the job has no pod settings, an unknown role, neither chief nor worker, an output in a volume
            that is deleted with its pods, or a metrics port that TensorFlow uses.
    """
    counts = {role: count for role, count in job.replicas.items() if count}
    pod = _check_pod(job, counts)
    training = training_digest(identity, job)
    manifest = _manifest(job, pod, counts, identity, policy, job_name(identity, training))
    metadata = manifest["metadata"]
    metadata["annotations"] |= {TRAINING_ANNOTATION: training, HASH_ANNOTATION: settings_digest(job, policy.changed())}
    if policy.lease_seconds is not None:
        # Added after the hash, because the lease watch is not part of the job's specification.
        for spec in manifest["spec"]["tfReplicaSpecs"].values():
            (container,) = spec["template"]["spec"]["containers"]
            watch = ("--lease", metadata["name"], "--account", pod.service_account, "--seconds", policy.lease_seconds)
            container["command"] = [*_LEASE_WATCH, *map(str, watch), "--", *container["command"]]
    if owner:
        metadata["ownerReferences"] = [dict(owner)]
    return manifest


def with_restarts(manifest: Manifest, restarts: int) -> Manifest:
    """Return the manifest of a TFJob that replaces another one after the given number of restarts."""
    metadata = manifest["metadata"]
    annotations = {**metadata["annotations"], RESTARTS_ANNOTATION: str(restarts)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def output_annotation(output: str) -> str:
    """Return the name of the annotation with the URI of an output."""
    return f"qcnn/{output}"


def _check_pod(job: JobSpec, counts: Mapping[str, int]) -> PodSettings:
    """Return the pod settings of a job with the given number of processes of each role.

    Raises:
        ConfigError: If the job cannot be a TFJob (see `tfjob`).
    """
    if job.pod is None:
        raise ConfigError("pod: a job on Kubernetes needs an image. Given: none")
    unknown = sorted(set(counts) - set(REPLICA_TYPES))
    if unknown or not counts.keys() & {"chief", "worker"} or counts.get("chief", 0) > 1:
        raise ConfigError(
            f"replicas: must be of {', '.join(REPLICA_TYPES)}, with a worker or one chief. Given: {dict(job.replicas)}"
        )
    for uri in job.outputs.values():
        if uri.startswith("/") and not job.pod.is_persistent(uri):
            raise ConfigError(
                "output: must be in a bucket, or in a volume that persists after its pods end, such as a "
                f"persistentVolumeClaim (pod.volumes). Given: {uri.partition(f'/$({JOB_VARIABLE})')[0]}"
            )
    if (port := job.pod.metrics_port) in _RESERVED_PORTS:
        reserved = " or ".join(map(str, _RESERVED_PORTS))
        raise ConfigError(f"pod.metrics_port: must not be {reserved}, which TensorFlow uses. Given: {port}")
    return job.pod


def profiler_service(job: Manifest) -> Manifest:
    """Return the Service through which TensorBoard reaches the profiler of the chief (or of worker 0).

    The operator's Services have only the cluster port.

    Args:
        job: TFJob, which then owns the Service, or its manifest.
    """
    name = job["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _owned_metadata(job, f"{name}-profiler"),
        "spec": {
            # The operator sets this role for the chief, or for worker 0 if there is no chief.
            "selector": {JOB_NAME_LABEL: name, "training.kubeflow.org/job-role": "master"},
            "ports": [{"name": "profiler", "port": PROFILER_PORT, "targetPort": PROFILER_PORT}],
        },
    }


def lease(job: Manifest, holder: str, seconds: int, renewed: str) -> Manifest:
    """Return the Lease (coordination.k8s.io/v1) that the launcher of a TFJob renews.

    Args:
        job: TFJob as returned by the API.
        holder: Host name of the launcher.
        seconds: Duration in seconds.
        renewed: Time of the renewal, RFC 3339 with microseconds.
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
        # Kueue must queue only the TFJob itself.
        "labels": {key: value for key, value in metadata["labels"].items() if key != QUEUE_LABEL},
        "annotations": {RUN_ANNOTATION: run} if run else {},
    }
    if uid := metadata.get("uid"):
        owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": metadata["name"], "uid": uid}
        owned["ownerReferences"] = [owner]
    return owned


def _manifest(
    job: JobSpec, pod: PodSettings, counts: Mapping[str, int], identity: JobIdentity, policy: JobTimeouts, name: str
) -> Manifest:
    run_policy: Manifest = {
        # With restart policy ExitCode, the operator ignores all values except 0, which fails the job at the first
        # retryable error. The launcher enforces the limit.
        "backoffLimit": job.restarts,
        # Keeps completed pods for inspection.
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
            # The job succeeds with the chief (or worker 0), which writes all outputs. With AllWorkers, a worker that
            # fails later would be restarted, and would wait forever for a process that has exited.
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


def _output_annotations(job: JobSpec, policy: JobTimeouts, name: str) -> dict[str, str]:
    """Return the annotations with output URIs and Lease duration, for clients that read the TFJob."""
    outputs = {
        output_annotation(output): uri.replace(f"$({JOB_VARIABLE})", name) for output, uri in job.outputs.items()
    }
    return outputs if policy.lease_seconds is None else {**outputs, LEASE_ANNOTATION: str(policy.lease_seconds)}


def _template(job: JobSpec, pod: PodSettings, identity: JobIdentity, policy: JobTimeouts, name: str) -> Manifest:
    template = pod_template(pod, name, identity, job.argv, mounts_token=policy.lease_seconds is not None)
    template["spec"]["affinity"] = _anti_affinity(name)
    if pod.topology_spread:
        template["spec"]["topologySpreadConstraints"] = [_spread_constraint(pod.topology_spread, name)]
    container = template["spec"]["containers"][0]
    container["ports"] = [
        {"name": "tfjob-port", "containerPort": CLUSTER_PORT},
        {"name": "profiler", "containerPort": PROFILER_PORT},
    ]
    if pod.metrics_port is not None:
        container["ports"].append({"name": METRICS_PORT, "containerPort": pod.metrics_port})
        container["env"].append({"name": PORT_VARIABLE, "value": str(pod.metrics_port)})
    return template


def _anti_affinity(name: str) -> Manifest:
    """Return the preference for nodes without another process of the job."""
    term = {"labelSelector": {"matchLabels": {JOB_NAME_LABEL: name}}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
        }
    }


def _spread_constraint(key: str, name: str) -> Manifest:
    """Return the preference to spread the processes of a job over the values of a node label."""
    return {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {JOB_NAME_LABEL: name}},
    }
