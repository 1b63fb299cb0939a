"""What Vertex AI makes of the end of a replica.

Of "Understand the training service" (errors, restarts) and "Use Spot VMs with training" (preemption) of its
documentation, as they stood on 2026-11-22.
"""

import dataclasses
import enum
import urllib.parse

# Exit codes of SIGABRT and SIGSEGV in a container: "potentially transient", the job is restarted three times.
_TRANSIENT = (134, 139)
_OUT_OF_MEMORY = 137
_TRANSIENT_RESTARTS = 3
# "When Spot VMs are preempted, the job fails with a STOCKOUT error and ... tries to restart the job up to six times."
_SPOT_RESTARTS = 6
# google.rpc.Code
_INVALID_ARGUMENT, _RESOURCE_EXHAUSTED = 3, 8


class Action(enum.Enum):
    """What follows from a replica's end."""

    GO_ON = enum.auto()
    RESTART_REPLICA = enum.auto()
    RESTART_JOB = enum.auto()
    SUCCEEDED = enum.auto()
    FAILED = enum.auto()


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a replica has ended, and what the job's specification and past say to it."""

    replica: str
    code: int
    preempted: bool
    spot: bool
    restarts_job: bool
    may_retry: bool
    restarts: int


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What happens next; the code and message of the error where the job has failed."""

    action: Action
    code: int = 0
    message: str = ""


def judge(ended: Ended, *, job_id: str, project: str, location: str) -> Verdict:
    """Return what follows from the end of a replica."""
    if ended.preempted:
        return _judge_preempted(ended, location)
    if ended.code == 0:
        return Verdict(Action.SUCCEEDED if ended.replica == "workerpool0-0" else Action.GO_ON)
    if ended.code in _TRANSIENT and ended.may_retry and ended.restarts < _TRANSIENT_RESTARTS:
        return Verdict(Action.RESTART_JOB)
    memory = ended.code == _OUT_OF_MEMORY
    how = "ran out of memory and exited" if memory else "exited"
    reason = "" if memory else " Termination reason: Error."
    return Verdict(
        Action.FAILED,
        _INVALID_ARGUMENT,
        f"The replica {ended.replica} {how} with a non-zero status of {ended.code}.{reason} To find out more about why "
        f"your job exited please check the logs: {_link(job_id, project)}",
    )


def _judge_preempted(ended: Ended, location: str) -> Verdict:
    if not ended.spot:
        # Maintenance of the machine: the worker comes back on another one, under its name.
        return Verdict(Action.RESTART_JOB if ended.restarts_job else Action.RESTART_REPLICA)
    if ended.may_retry and ended.restarts < _SPOT_RESTARTS:
        return Verdict(Action.RESTART_JOB)
    return no_machines(location)


def no_machines(location: str) -> Verdict:
    """Return what becomes of a job for which a region has no machines."""
    message = (
        f"Resources are insufficient in region: {location}. Try a different region or use a different accelerator."
    )
    return Verdict(Action.FAILED, _RESOURCE_EXHAUSTED, message)


def _link(job_id: str, project: str) -> str:
    """Return the address of a job's log in Google's console."""
    query = f'resource.type="ml_job"\nresource.labels.job_id="{job_id}"'
    resource = urllib.parse.quote(f"ml_job/job_id/{job_id}", safe="")
    return (
        f"https://console.cloud.google.com/logs/viewer?project={project}&resource={resource}"
        f"&advancedFilter={urllib.parse.quote(query, safe='')}"
    )
