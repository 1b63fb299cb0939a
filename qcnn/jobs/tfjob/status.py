"""The status of TFJobs and of their processes, as a person wants to know it."""

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any

from qcnn.jobs.kubernetes import events, pods
from qcnn.jobs.kubernetes.api import EVENTS, PODS, Api
from qcnn.jobs.kubernetes.identity import OWN, run_of
from qcnn.jobs.kubernetes.kinds import condition
from qcnn.jobs.kubernetes.pods import Process
from qcnn.jobs.kubernetes.start import question
from qcnn.jobs.tfjob import read
from qcnn.jobs.tfjob.kind import JOB_NAME_LABEL, TFJOB, TFJOBS, pod_name
from qcnn.jobs.tfjob.times import parse_time
from qcnn.trainer.startup import ABANDONED

OWN_SELECTOR = ",".join(f"{label}={value}" for label, value in OWN.items())
_SCHEDULED = "involvedObject.kind=Pod,reason=Scheduled"


@dataclasses.dataclass(frozen=True)
class Status:
    """One TFJob; ages and durations are in seconds, `restarts` go as far back as the cluster keeps events."""

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
    """One process; `trouble` is why it does not start, or why it ended, where its exit code does not say that.

    `state` is waiting, running, ending, finished, failed or lost; of a job that has ended also "not started", or
    "removed" where it has no pod.
    """

    name: str
    pod: str | None
    state: str
    exit_code: int | None
    trouble: str | None


def read_all(api: Api) -> list[Status]:
    """Return the status of our TFJobs in a namespace, the newest last."""
    found = api.find(TFJOBS, labelSelector=OWN_SELECTOR)
    all_pods = api.find(PODS, labelSelector=OWN_SELECTOR)
    scheduled = api.find(EVENTS, fieldSelector=_SCHEDULED)
    ordered = sorted(found, key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))
    return [status_of(job, pods.of_job(all_pods, job, TFJOB), scheduled, api.now()) for job in ordered]


def read_one(api: Api, job: dict[str, Any]) -> tuple[Status, list[ProcessStatus]]:
    """Return the status of a TFJob and of its processes."""
    found = api.find(PODS, labelSelector=f"{JOB_NAME_LABEL}={job['metadata']['name']}")
    processes = pods.of_job(found, job, TFJOB)
    status = status_of(job, processes, api.find(EVENTS, fieldSelector=_SCHEDULED), api.now())
    return status, process_statuses(job, processes, lambda process, pod: question(job, process, pod).ask(api))


def status_of(
    job: dict[str, Any],
    processes: Sequence[Process],
    scheduled: Sequence[dict[str, Any]],
    now: datetime.datetime,
) -> Status:
    """Return the status of a TFJob, by its processes, events of pods that got a node, and the server's clock."""
    metadata, status = job["metadata"], job.get("status", {})
    began, ended = status.get("startTime"), status.get("completionTime")
    state = read.state(job)
    return Status(
        name=metadata["name"],
        run=run_of(metadata) or "",
        state=state,
        processes=len(read.processes(job)),
        running=sum(process_state(process) == "running" for process in processes),
        restarts=read.restarts_before(job) + events.restarts(job, scheduled, processes),
        age=(now - parse_time(metadata["creationTimestamp"])).total_seconds(),
        duration=((parse_time(ended) if ended else now) - parse_time(began)).total_seconds() if began else None,
        message=condition(job, state) or "",
        outputs=read.outputs(job),
    )


def process_statuses(
    job: dict[str, Any], processes: Sequence[Process], ask: Callable[[Process | None, str], str | None]
) -> list[ProcessStatus]:
    """Return the status of each process of a TFJob.

    `ask` looks into the events for why a process does not start, where its pod, of which it is given the name, does not
    say it.
    """
    by_name = {process.name: process for process in processes}
    job_has_ended = read.has_ended(job)
    found = []
    for role, index in read.processes(job):
        name = f"{role} {index}"
        process = by_name.get(name)
        state = process_state(process, job_has_ended=job_has_ended)
        trouble = (process.trouble or _why_ended(process)) if process else None
        if state == "waiting" and not trouble:
            trouble = ask(process, pod_name(job, role, index))
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


def process_state(process: Process | None, *, job_has_ended: bool = False) -> str:
    """Return the state of a process, None where it has no pod; nothing of a job that has ended is waited for."""
    if process is None:
        return "removed" if job_has_ended else "waiting"
    if not process.started:
        return "not started" if job_has_ended else "waiting"
    if process.exit_code is None:
        return "ending" if process.told_to_end else "running"
    if process.exit_code == 0:
        return "finished"
    return "failed" if process.own_fault or process.out_of_memory else "lost"


def _why_ended(process: Process) -> str | None:
    """Return why a process ended where its exit code alone does not say it."""
    if process.out_of_memory:
        return "used more memory than its limit"
    if process.exit_code == ABANDONED:
        return "its launcher did not renew the Lease; submitted again, the training continues from its last checkpoint"
    return None
