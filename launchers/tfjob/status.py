"""What a person wants to know of the TFJobs in a namespace."""

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any

from launchers.kubernetes import events, pods
from launchers.kubernetes.api import EVENTS, PODS, Api
from launchers.kubernetes.identity import OWN, run_of
from launchers.kubernetes.kinds import condition
from launchers.kubernetes.pods import Process
from launchers.tfjob import read
from launchers.tfjob.kind import JOB_NAME_LABEL, TFJOB, TFJOBS

OWN_SELECTOR = ",".join(f"{label}={value}" for label, value in OWN.items())


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
    """One process: waiting, running, ending, finished, failed or lost; `trouble` is why it does not start."""

    name: str
    pod: str | None
    state: str
    exit_code: int | None
    trouble: str | None


def read_all(api: Api) -> list[Status]:
    """Return all TFJobs of ours in a namespace, the newest last."""
    found = api.find(TFJOBS, labelSelector=OWN_SELECTOR)
    all_pods = api.find(PODS, labelSelector=OWN_SELECTOR)
    scheduled = api.find(EVENTS, fieldSelector="involvedObject.kind=Pod,reason=Scheduled")
    ordered = sorted(found, key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))
    return [_status(job, _of(job, all_pods), scheduled, api.now()) for job in ordered]


def read_one(api: Api, job: dict[str, Any]) -> tuple[Status, list[ProcessStatus]]:
    """Return a TFJob and its processes."""
    own_pods = api.find(PODS, labelSelector=f"{JOB_NAME_LABEL}={job['metadata']['name']}")
    scheduled = api.find(EVENTS, fieldSelector="involvedObject.kind=Pod,reason=Scheduled")
    by_name = {process.name: process for process in (pods.read(pod, TFJOB) for pod in own_pods)}
    processes = []
    for role, index in read.processes(job):
        name = f"{role} {index}"
        process = by_name.get(name)
        trouble = None if read.has_ended(job) or (process and process.started) else _trouble(api, job, process)
        processes.append(
            ProcessStatus(
                name=name,
                pod=process.pod if process else None,
                state=_state(process),
                exit_code=process.exit_code if process else None,
                trouble=trouble,
            )
        )
    return _status(job, own_pods, scheduled, api.now()), processes


def _status(
    job: dict[str, Any],
    own_pods: Sequence[dict[str, Any]],
    scheduled: Sequence[dict[str, Any]],
    now: datetime.datetime,
) -> Status:
    metadata, status = job["metadata"], job.get("status", {})
    began, ended = status.get("startTime"), status.get("completionTime")
    processes = [pods.read(pod, TFJOB) for pod in own_pods]
    state = read.state(job)
    return Status(
        name=metadata["name"],
        run=run_of(metadata) or "",
        state=state,
        processes=len(read.processes(job)),
        running=sum(_state(process) == "running" for process in processes),
        restarts=events.restarts(job, scheduled, own_pods),
        age=(now - _time(metadata["creationTimestamp"])).total_seconds(),
        duration=((_time(ended) if ended else now) - _time(began)).total_seconds() if began else None,
        message=condition(job, state) or "",
        outputs=read.outputs(job),
    )


def _of(job: dict[str, Any], all_pods: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [pod for pod in all_pods if pod["metadata"]["labels"].get(JOB_NAME_LABEL) == job["metadata"]["name"]]


def _state(process: Process | None) -> str:
    if process is None or not process.started:
        return "waiting"
    if process.exit_code is None:
        return "ending" if process.told_to_end else "running"
    if process.exit_code == 0:
        return "finished"
    return "failed" if process.own_fault or process.out_of_memory else "lost"


def _trouble(api: Api, job: dict[str, Any], process: Process | None) -> str | None:
    """Return why a process does not start: it says so itself, or events of it or of its job do."""
    if process and process.trouble:
        return process.trouble
    uid, reason = (process.uid, "") if process else (job["metadata"]["uid"], "FailedCreate")
    return events.last_warning(api.find(EVENTS, fieldSelector=f"involvedObject.uid={uid},type=Warning"), reason)


def _time(text: str) -> datetime.datetime:
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z")
