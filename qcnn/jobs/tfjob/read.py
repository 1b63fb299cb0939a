"""Read TFJobs, by pure functions (kubeflow.org/v1 TFJob: as the API returns it, or its manifest)."""

from typing import Any

from qcnn.jobs.job import OUTPUTS
from qcnn.jobs.kubernetes.identity import annotation
from qcnn.jobs.kubernetes.kinds import condition
from qcnn.jobs.kubernetes.pod_template import CONTAINER
from qcnn.jobs.tfjob.kind import REPLICA_TYPES
from qcnn.jobs.tfjob.manifest import LEASE_ANNOTATION, METRICS_PORT, RESTARTS_ANNOTATION, output_annotation

# A TFJob may be in several of these; the first in this order is its state.
_STATES = ("Failed", "Succeeded", "Suspended", "Restarting", "Running", "Created")
_DELETING, _NEW = "Deleting", "New"
STATES = (*_STATES, _DELETING, _NEW)


def state(job: dict[str, Any]) -> str:
    """Return the condition that a TFJob is in; Deleting where it is being deleted, New where it is in none yet."""
    if "deletionTimestamp" in job["metadata"]:
        return _DELETING
    return next((kind for kind in _STATES if condition(job, kind)), _NEW)


def has_ended(job: dict[str, Any]) -> bool:
    """Whether it has finished for good."""
    return state(job) in ("Failed", "Succeeded")


def processes(job: dict[str, Any]) -> list[tuple[str, int]]:
    """Return role and index of every process."""
    specs = job["spec"]["tfReplicaSpecs"]
    counts = {role: specs[kind].get("replicas", 1) for role, kind in REPLICA_TYPES.items() if kind in specs}
    return [(role, index) for role, count in counts.items() for index in range(count)]


def leading_template(job: dict[str, Any]) -> dict[str, Any]:
    """Return the pod template of the process that writes the model."""
    specs = job["spec"]["tfReplicaSpecs"]
    return dict((specs.get("Chief") or specs["Worker"])["template"])


def restarts(job: dict[str, Any]) -> int:
    """Return how often its processes are started again, at most, when one is lost."""
    return int(job["spec"]["runPolicy"]["backoffLimit"])


def restarts_before(job: dict[str, Any]) -> int:
    """Return how often its processes were started again before it replaced another TFJob."""
    count = annotation(job["metadata"], RESTARTS_ANNOTATION)
    return int(count) if count and count.isdecimal() else 0


def service_account(job: dict[str, Any]) -> str:
    """Return the service account of its pods."""
    return str(leading_template(job)["spec"].get("serviceAccountName", "default"))


def metrics_port(job: dict[str, Any]) -> int | None:
    """Return the port on which its processes serve their metrics, None where they serve none."""
    (container,) = (each for each in leading_template(job)["spec"]["containers"] if each["name"] == CONTAINER)
    return next((port["containerPort"] for port in container["ports"] if port["name"] == METRICS_PORT), None)


def outputs(job: dict[str, Any]) -> dict[str, str]:
    """Return the address of each output that it writes: training, logs, model."""
    found = {output: annotation(job["metadata"], output_annotation(output)) for output in OUTPUTS}
    return {output: address for output, address in found.items() if address}


def lease_seconds(job: dict[str, Any]) -> int | None:
    """Return how many seconds it outlives its launcher, None where it needs no launcher."""
    seconds = annotation(job["metadata"], LEASE_ANNOTATION)
    return int(seconds) if seconds and seconds.isdecimal() else None
