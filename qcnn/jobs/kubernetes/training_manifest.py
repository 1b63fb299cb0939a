"""Parts of the manifests of training jobs that all engines share: metadata, Lease, Service and process template."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from qcnn.errors import ConfigError
from qcnn.jobs.job import OUTPUTS, JobIdentity, JobSpec, settings_digest, training_digest
from qcnn.jobs.job import name as job_name
from qcnn.jobs.kubernetes.manifest import (
    HASH_ANNOTATION,
    QUEUE_LABEL,
    RUN_ANNOTATION,
    TRAINING_ANNOTATION,
    Manifest,
    annotation,
    annotations,
    anti_affinity,
    labels,
    pod_template,
    queue_label,
    run_of,
    spread_constraint,
)
from qcnn.jobs.pod_settings import PodSettings
from qcnn.monitoring.logs import JOB_VARIABLE, PORT_VARIABLE
from qcnn.process.roles import ROLES

CLUSTER_PORT = 2222
PROFILER_PORT = 2223
# Name of the container port for metrics.
METRICS_PORT = "metrics"
# Duration of the Lease in seconds. A job without this annotation needs no launcher.
LEASE_ANNOTATION = "qcnn/lease-seconds"
# Number of restarts before this job, if it replaces another one.
RESTARTS_ANNOTATION = "qcnn/restarts"
_RESERVED_PORTS = (CLUSTER_PORT, PROFILER_PORT)
_LEASE_WATCH = ("python", "-m", "qcnn.jobs.kubernetes.lease_watch")


@dataclasses.dataclass(frozen=True)
class JobTimeouts:
    """Timeouts of a training job in seconds.

    `lease_seconds` is the time without a renewal of its Lease after which the job ends. None: it needs no launcher.
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


def check_pod(job: JobSpec) -> PodSettings:
    """Return the pod settings of a job.

    Raises:
        ConfigError: If the job has no pod settings, an unknown role, neither chief nor worker, an output in a volume
            that is deleted with its pods, or a metrics port that TensorFlow uses.
    """
    counts = counts_of(job)
    if job.pod is None:
        raise ConfigError("pod: a job on Kubernetes needs an image. Given: none")
    if set(counts) - set(ROLES) or not counts.keys() & {"chief", "worker"} or counts.get("chief", 0) > 1:
        raise ConfigError(
            f"replicas: must be of {', '.join(ROLES)}, with a worker or one chief. Given: {dict(job.replicas)}"
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


def counts_of(job: JobSpec) -> dict[str, int]:
    """Return the number of processes of each role of a job, without roles of 0 processes."""
    return {role: count for role, count in job.replicas.items() if count}


def job_metadata(
    job: JobSpec, identity: JobIdentity, timeouts: JobTimeouts, owner: Mapping[str, str] | None
) -> Manifest:
    """Return the metadata of the object of a training job.

    The name is also that of the output folder. It is derived from run, task, iteration, training values and number of
    processes, not from pod settings and timeouts. A job that is resubmitted with more memory, or with another engine,
    therefore resumes from its last checkpoint. The URIs of the outputs, with the name in place of $(QCNN_JOB), and the
    Lease duration are annotations.

    Args:
        job: Training job.
        identity: Run, task and iteration of the job.
        timeouts: Timeouts of the job.
        owner: Owner reference (apiVersion, kind, name, uid) of the object with which the job is deleted.
    """
    pod, training = check_pod(job), training_digest(identity, job)
    name = job_name(identity, training)
    outputs = {output_annotation(key): uri.replace(f"$({JOB_VARIABLE})", name) for key, uri in job.outputs.items()}
    lease = {} if timeouts.lease_seconds is None else {LEASE_ANNOTATION: str(timeouts.lease_seconds)}
    digests = {TRAINING_ANNOTATION: training, HASH_ANNOTATION: settings_digest(job, timeouts.changed())}
    metadata: Manifest = {
        "name": name,
        "labels": {**pod.labels, **queue_label(pod.queue), **labels(identity)},
        "annotations": {**annotations(identity), **outputs, **lease, **digests},
    }
    return {**metadata, "ownerReferences": [dict(owner)]} if owner else metadata


def process_template(
    job: JobSpec, role: str, identity: JobIdentity, timeouts: JobTimeouts, name: str, selector: Mapping[str, str]
) -> Manifest:
    """Return the pod template of the processes of a role.

    Args:
        job: Training job.
        role: Role of the processes.
        identity: Run, task and iteration of the job.
        timeouts: Timeouts of the job.
        name: Name of the job.
        selector: Labels of all pods of the job, which should be on different nodes.
    """
    pod = check_pod(job).for_role(role)
    template = pod_template(
        pod, name, identity, _command(job, pod, timeouts, name), mounts_token=timeouts.lease_seconds is not None
    )
    template["spec"]["affinity"] = anti_affinity(selector)
    if pod.topology_spread:
        template["spec"]["topologySpreadConstraints"] = [spread_constraint(pod.topology_spread, selector)]
    (container,) = template["spec"]["containers"]
    container["ports"] = [
        {"name": "tfjob-port", "containerPort": CLUSTER_PORT},
        {"name": "profiler", "containerPort": PROFILER_PORT},
    ]
    if pod.metrics_port is not None:
        container["ports"].append({"name": METRICS_PORT, "containerPort": pod.metrics_port})
        container["env"].append({"name": PORT_VARIABLE, "value": str(pod.metrics_port)})
    return template


def _command(job: JobSpec, pod: PodSettings, timeouts: JobTimeouts, name: str) -> Sequence[str]:
    """Return the command of a process, which the lease watch runs if the job needs a launcher."""
    if timeouts.lease_seconds is None:
        return job.argv
    watch = ("--lease", name, "--account", pod.service_account, "--seconds", str(timeouts.lease_seconds))
    return (*_LEASE_WATCH, *watch, "--", *job.argv)


def with_restarts(manifest: Manifest, restarts: int) -> Manifest:
    """Return the manifest of a job that replaces another one after the given number of restarts."""
    metadata = manifest["metadata"]
    annotations = {**metadata["annotations"], RESTARTS_ANNOTATION: str(restarts)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def profiler_service(job: Manifest, selector: Mapping[str, str]) -> Manifest:
    """Return the Service through which TensorBoard reaches the profiler of the chief (or of worker 0).

    Args:
        job: Training job, which then owns the Service, or its manifest.
        selector: Labels of the pod.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owned_metadata(job, f"{job['metadata']['name']}-profiler"),
        "spec": {
            "selector": dict(selector),
            "ports": [{"name": "profiler", "port": PROFILER_PORT, "targetPort": PROFILER_PORT}],
        },
    }


def lease(job: Manifest, holder: str, seconds: int, renewed: str) -> Manifest:
    """Return the Lease (coordination.k8s.io/v1) that the launcher of a job renews.

    Args:
        job: Training job as returned by the API.
        holder: Host name of the launcher.
        seconds: Duration in seconds.
        renewed: Time of the renewal, RFC 3339 with microseconds.
    """
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": owned_metadata(job, job["metadata"]["name"]),
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed},
    }


def owned_metadata(job: Manifest, name: str) -> Manifest:
    """Return the metadata of an object that a training job owns, without owner for a manifest."""
    metadata = job["metadata"]
    run = run_of(metadata)
    owned: Manifest = {
        "name": name,
        # Kueue must queue only the job itself.
        "labels": {key: value for key, value in metadata["labels"].items() if key != QUEUE_LABEL},
        "annotations": {RUN_ANNOTATION: run} if run else {},
    }
    if uid := metadata.get("uid"):
        owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": metadata["name"], "uid": uid}
        owned["ownerReferences"] = [owner]
    return owned


def output_annotation(output: str) -> str:
    """Return the name of the annotation with the URI of an output."""
    return f"qcnn/{output}"


def outputs(job: Manifest) -> dict[str, str]:
    """Return the URI of each output that a job writes (see `qcnn.jobs.job.OUTPUTS`)."""
    uris = {output: annotation(job["metadata"], output_annotation(output)) for output in OUTPUTS}
    return {output: uri for output, uri in uris.items() if uri}


def lease_seconds(job: Manifest) -> int | None:
    """Return the Lease duration of a job in seconds, or None if it needs no launcher."""
    seconds = annotation(job["metadata"], LEASE_ANNOTATION)
    return int(seconds) if seconds and seconds.isdecimal() else None


def restarts_before(job: Manifest) -> int:
    """Return the number of restarts of the jobs that a job has replaced."""
    count = annotation(job["metadata"], RESTARTS_ANNOTATION)
    return int(count) if count and count.isdecimal() else 0
