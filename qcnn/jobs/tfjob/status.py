"""Status and settings of TFJobs (kubeflow.org/v1), as returned by the API or as manifests."""

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any

from qcnn.jobs.job import OUTPUTS
from qcnn.jobs.kubernetes import pods
from qcnn.jobs.kubernetes.api import EVENTS, PODS, NamespaceClient
from qcnn.jobs.kubernetes.manifest import CONTAINER, OWN, annotation, condition, run_of
from qcnn.jobs.kubernetes.pods import PodProcess, event_query
from qcnn.jobs.references import parse_time
from qcnn.jobs.tfjob.manifest import (
    JOB_NAME_LABEL,
    LEASE_ANNOTATION,
    METRICS_PORT,
    REPLICA_TYPES,
    RESTARTS_ANNOTATION,
    TFJOB,
    TFJOBS,
    output_annotation,
    pod_name,
)
from qcnn.process.exit_codes import ABANDONED

# Conditions of a TFJob. If several are true, its state is the first in this order.
_STATES = ("Failed", "Succeeded", "Suspended", "Restarting", "Running", "Created")
_DELETING, _NEW = "Deleting", "New"
STATES = (*_STATES, _DELETING, _NEW)


def state(job: dict[str, Any]) -> str:
    """Return the state of a TFJob: its condition, Deleting, or New if it has no condition yet."""
    if "deletionTimestamp" in job["metadata"]:
        return _DELETING
    return next((kind for kind in _STATES if condition(job, kind)), _NEW)


def has_ended(job: dict[str, Any]) -> bool:
    """Return whether a TFJob has succeeded or failed."""
    return state(job) in ("Failed", "Succeeded")


def replicas(job: dict[str, Any]) -> list[tuple[str, int]]:
    """Return role and index of each process of a TFJob."""
    specs = job["spec"]["tfReplicaSpecs"]
    counts = {role: specs[kind].get("replicas", 1) for role, kind in REPLICA_TYPES.items() if kind in specs}
    return [(role, index) for role, count in counts.items() for index in range(count)]


def leading_template(job: dict[str, Any]) -> dict[str, Any]:
    """Return the pod template of the process that writes the model: the chief, or a worker without one."""
    specs = job["spec"]["tfReplicaSpecs"]
    return dict((specs.get("Chief") or specs["Worker"])["template"])


def restarts(job: dict[str, Any]) -> int:
    """Return the maximum number of restarts of a TFJob after retryable errors."""
    return int(job["spec"]["runPolicy"]["backoffLimit"])


def restarts_before(job: dict[str, Any]) -> int:
    """Return the number of restarts of the TFJobs that a TFJob has replaced."""
    count = annotation(job["metadata"], RESTARTS_ANNOTATION)
    return int(count) if count and count.isdecimal() else 0


def service_account(job: dict[str, Any]) -> str:
    """Return the service account of the pods of a TFJob."""
    return str(leading_template(job)["spec"].get("serviceAccountName", "default"))


def metrics_port(job: dict[str, Any]) -> int | None:
    """Return the port on which the processes of a TFJob serve metrics, or None if they serve none."""
    (container,) = (each for each in leading_template(job)["spec"]["containers"] if each["name"] == CONTAINER)
    return next((port["containerPort"] for port in container["ports"] if port["name"] == METRICS_PORT), None)


def outputs(job: dict[str, Any]) -> dict[str, str]:
    """Return the URI of each output that a TFJob writes (see `qcnn.jobs.job.OUTPUTS`)."""
    uris = {output: annotation(job["metadata"], output_annotation(output)) for output in OUTPUTS}
    return {output: uri for output, uri in uris.items() if uri}


def lease_seconds(job: dict[str, Any]) -> int | None:
    """Return the Lease duration of a TFJob in seconds, or None if it needs no launcher."""
    seconds = annotation(job["metadata"], LEASE_ANNOTATION)
    return int(seconds) if seconds and seconds.isdecimal() else None


OWN_SELECTOR = ",".join(f"{label}={value}" for label, value in OWN.items())
_SCHEDULED = "involvedObject.kind=Pod,reason=Scheduled"


@dataclasses.dataclass(frozen=True)
class Status:
    """Status of a TFJob.

    `age` and `duration` are in seconds. `restarts` includes only those with events that the cluster still stores.
    """

    name: str
    run: str
    state: str
    processes: int
    running: int
    restarts: int
    age: float
    duration: float | None
    message: str
    outputs: dict[str, str]


@dataclasses.dataclass(frozen=True)
class ProcessStatus:
    """Status of a process of a TFJob.

    `state` is waiting, running, ending, finished, failed or lost. If the TFJob has ended, it may also be "not started",
    or "removed" without a pod. `trouble` is the reason why the process does not start, or why it ended if the exit code
    does not show it.
    """

    name: str
    pod: str | None
    state: str
    exit_code: int | None
    trouble: str | None


def read_all(api: NamespaceClient) -> list[Status]:
    """Return the status of the managed TFJobs of a namespace, sorted by creation time."""
    jobs = api.find(TFJOBS, labelSelector=OWN_SELECTOR)
    all_pods = api.find(PODS, labelSelector=OWN_SELECTOR)
    scheduled = api.find(EVENTS, fieldSelector=_SCHEDULED)
    ordered = sorted(jobs, key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))
    return [status_of(job, pods.processes_of_job(all_pods, job, TFJOB), scheduled, api.now()) for job in ordered]


def read_one(api: NamespaceClient, job: dict[str, Any]) -> tuple[Status, list[ProcessStatus]]:
    """Return the status of a TFJob and of its processes."""
    found = api.find(PODS, labelSelector=f"{JOB_NAME_LABEL}={job['metadata']['name']}")
    processes = pods.processes_of_job(found, job, TFJOB)
    status = status_of(job, processes, api.find(EVENTS, fieldSelector=_SCHEDULED), api.now())
    return status, process_statuses(
        job, processes, lambda process, pod: event_query(job, process, pod).last_warning(api)
    )


def status_of(
    job: dict[str, Any],
    processes: Sequence[PodProcess],
    scheduled: Sequence[dict[str, Any]],
    now: datetime.datetime,
) -> Status:
    """Return the status of a TFJob.

    Args:
        job: TFJob as returned by the API.
        processes: Its processes that have a pod.
        scheduled: Events with reason Scheduled of its pods.
        now: Time of the API server's clock.
    """
    metadata, status = job["metadata"], job.get("status", {})
    began, ended = status.get("startTime"), status.get("completionTime")
    current = state(job)
    return Status(
        name=metadata["name"],
        run=run_of(metadata) or "",
        state=current,
        processes=len(replicas(job)),
        running=sum(process_state(process) == "running" for process in processes),
        restarts=restarts_before(job) + pods.count_restarts(job, scheduled, processes),
        age=(now - parse_time(metadata["creationTimestamp"])).total_seconds(),
        duration=((parse_time(ended) if ended else now) - parse_time(began)).total_seconds() if began else None,
        message=condition(job, current) or "",
        outputs=outputs(job),
    )


def process_statuses(
    job: dict[str, Any], processes: Sequence[PodProcess], find_reason: Callable[[PodProcess | None, str], str | None]
) -> list[ProcessStatus]:
    """Return the status of each process of a TFJob.

    Args:
        job: TFJob as returned by the API.
        processes: Its processes that have a pod.
        find_reason: Returns the reason why a process does not start from the events of its pod. Called with the process
            and the name of the pod if the pod itself does not show a reason.
    """
    by_name = {process.name: process for process in processes}
    job_has_ended = has_ended(job)
    found = []
    for role, index in replicas(job):
        name = f"{role} {index}"
        process = by_name.get(name)
        state = process_state(process, job_has_ended=job_has_ended)
        trouble = (process.pending_reason or _exit_reason(process)) if process else None
        if state == "waiting" and not trouble:
            trouble = find_reason(process, pod_name(job, role, index))
        found.append(
            ProcessStatus(
                name=name,
                pod=process.pod if process else None,
                state=state,
                exit_code=process.exit_code if process else None,
                trouble=trouble,
            )
        )
    return found


def process_state(process: PodProcess | None, *, job_has_ended: bool = False) -> str:
    """Return the state of a process (see `ProcessStatus`), None if it has no pod."""
    if process is None:
        return "removed" if job_has_ended else "waiting"
    if not process.started:
        return "not started" if job_has_ended else "waiting"
    if process.exit_code is None:
        return "ending" if process.is_terminating else "running"
    if process.exit_code == 0:
        return "finished"
    return "failed" if process.is_permanent_error or process.out_of_memory else "lost"


def _exit_reason(process: PodProcess) -> str | None:
    """Return the reason why a process ended, or None if the exit code shows it."""
    if process.out_of_memory:
        return pods.OUT_OF_MEMORY
    if process.exit_code == ABANDONED:
        return "its launcher did not renew the Lease; resubmit to resume from the last checkpoint"
    return None
