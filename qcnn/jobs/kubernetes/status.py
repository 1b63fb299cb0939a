"""Status of training jobs and of their processes, as returned by the API."""

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any

from qcnn.jobs.kubernetes import pod_events, pods
from qcnn.jobs.kubernetes.api import EVENTS, PODS, NamespaceClient
from qcnn.jobs.kubernetes.engine import Engine
from qcnn.jobs.kubernetes.manifest import OWN, QUEUE_LABEL, condition, run_of
from qcnn.jobs.kubernetes.pod_events import event_query
from qcnn.jobs.kubernetes.pods import PodProcess
from qcnn.jobs.kubernetes.training_manifest import outputs, restarts_before
from qcnn.jobs.references import parse_time
from qcnn.process.exit_codes import ABANDONED

OWN_SELECTOR = ",".join(f"{label}={value}" for label, value in OWN.items())
_SCHEDULED = "involvedObject.kind=Pod,reason=Scheduled"


@dataclasses.dataclass(frozen=True)
class Status:
    """Status of a training job.

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
    """Status of a process of a training job.

    `state` is waiting, running, ending, finished, failed or lost. If the job has ended, it may also be "not started",
    or "removed" without a pod. `trouble` is the reason why the process does not start, or why it ended if the exit code
    does not show it.
    """

    name: str
    pod: str | None
    state: str
    exit_code: int | None
    trouble: str | None


def read_all(api: NamespaceClient, engine: Engine) -> list[Status]:
    """Return the status of the managed jobs of an engine in a namespace, sorted by creation time."""
    jobs = api.find(engine.resource, labelSelector=OWN_SELECTOR)
    all_pods = api.find(PODS, labelSelector=engine.pod_label)
    scheduled = api.find(EVENTS, fieldSelector=_SCHEDULED)
    ordered = sorted(jobs, key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))
    return [
        status_of(engine, job, pods.processes_of_job(all_pods, job, engine), scheduled, api.now()) for job in ordered
    ]


def read_one(api: NamespaceClient, engine: Engine, job: dict[str, Any]) -> tuple[Status, list[ProcessStatus]]:
    """Return the status of a training job and of its processes."""
    found = api.find(PODS, labelSelector=f"{engine.pod_label}={job['metadata']['name']}")
    processes = pods.processes_of_job(found, job, engine)
    status = status_of(engine, job, processes, api.find(EVENTS, fieldSelector=_SCHEDULED), api.now())
    return status, process_statuses(
        engine, job, processes, lambda process, pod: event_query(job, engine, process, pod).last_warning(api)
    )


def status_of(
    engine: Engine,
    job: dict[str, Any],
    processes: Sequence[PodProcess],
    scheduled: Sequence[dict[str, Any]],
    now: datetime.datetime,
) -> Status:
    """Return the status of a training job.

    Args:
        engine: Engine of the job.
        job: Job as returned by the API.
        processes: Its processes that have a pod.
        scheduled: Events with reason Scheduled of its pods.
        now: Time of the API server's clock.
    """
    metadata = job["metadata"]
    began, ended = engine.began(job), _ended(engine, job)
    current = engine.state(job)
    return Status(
        name=metadata["name"],
        run=run_of(metadata) or "",
        state=current,
        processes=len(engine.replicas(job)),
        running=sum(process_state(process) == "running" for process in processes),
        restarts=restarts_before(job) + pod_events.count_restarts(job, scheduled, processes),
        age=(now - parse_time(metadata["creationTimestamp"])).total_seconds(),
        duration=((parse_time(ended) if ended else now) - parse_time(began)).total_seconds() if began else None,
        message=_queued(metadata, current) or condition(job, current) or "",
        outputs=outputs(job),
    )


def _ended(engine: Engine, job: dict[str, Any]) -> str | None:
    """Return when a job ended, by its status or by the condition of its end, or None if it has not."""
    status = job.get("status", {})
    ends = [each for each in status.get("conditions", ()) if each["type"] in (engine.succeeded, "Failed")]
    last = next((each.get("lastTransitionTime") for each in ends if each["status"] == "True"), None)
    ended: str | None = status.get("completionTime") or last
    return ended


def _queued(metadata: dict[str, Any], state: str) -> str:
    """Return that a suspended job waits in a queue of Kueue, or an empty string."""
    queue = metadata.get("labels", {}).get(QUEUE_LABEL)
    return f"queued in {queue}" if queue and state == "Suspended" else ""


def process_statuses(
    engine: Engine,
    job: dict[str, Any],
    processes: Sequence[PodProcess],
    find_reason: Callable[[PodProcess | None, str], str | None],
) -> list[ProcessStatus]:
    """Return the status of each process of a training job.

    Args:
        engine: Engine of the job.
        job: Job as returned by the API.
        processes: Its processes that have a pod.
        find_reason: Returns the reason why a process does not start from the events of its pod. Called with the process
            and the name of the pod if the pod itself does not show a reason.
    """
    by_name = {process.name: process for process in processes}
    job_has_ended = engine.has_ended(job)
    found = []
    for role, index in engine.replicas(job):
        name = f"{role} {index}"
        process = by_name.get(name)
        state = process_state(process, job_has_ended=job_has_ended)
        trouble = (process.pending_reason or _exit_reason(process)) if process else None
        if state == "waiting" and not trouble:
            trouble = find_reason(process, engine.pod_name(job, role, index))
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
