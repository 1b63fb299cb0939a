"""Failure handling of Vertex AI after the exit of a replica.

Sources: "Understand the training service" (errors, restarts) and "Use Spot VMs with training" (preemption) in its
documentation on 2026-11-22.
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
    """Action after the exit of a replica."""

    CONTINUE = enum.auto()
    RESTART_REPLICA = enum.auto()
    RESTART_JOB = enum.auto()
    SUCCEEDED = enum.auto()
    FAILED = enum.auto()


@dataclasses.dataclass(frozen=True)
class ReplicaExit:
    """Exit of a replica, and the settings and history of its job that determine the action."""

    replica: str
    code: int
    preempted: bool
    spot: bool
    restarts_job: bool
    may_retry: bool
    restarts: int


@dataclasses.dataclass(frozen=True)
class Decision:
    """Action after an exit, and the code and message of the error if the job has failed."""

    action: Action
    code: int = 0
    message: str = ""


def decide(ended: ReplicaExit, *, job_id: str, project: str, location: str) -> Decision:
    """Return the decision after the exit of a replica.

    Args:
        ended: The exit.
        job_id: Number of the job.
        project: Project ID.
        location: Region of the job.
    """
    if ended.preempted:
        return _decide_preempted(ended, location)
    if ended.code == 0:
        return Decision(Action.SUCCEEDED if ended.replica == "workerpool0-0" else Action.CONTINUE)
    if ended.code in _TRANSIENT and ended.may_retry and ended.restarts < _TRANSIENT_RESTARTS:
        return Decision(Action.RESTART_JOB)
    memory = ended.code == _OUT_OF_MEMORY
    how = "ran out of memory and exited" if memory else "exited"
    reason = "" if memory else " Termination reason: Error."
    return Decision(
        Action.FAILED,
        _INVALID_ARGUMENT,
        f"The replica {ended.replica} {how} with a non-zero status of {ended.code}.{reason} To find out more about why "
        f"your job exited please check the logs: {_link(job_id, project)}",
    )


def _decide_preempted(ended: ReplicaExit, location: str) -> Decision:
    if not ended.spot:
        # After host maintenance, the replica restarts on another machine under its name.
        return Decision(Action.RESTART_JOB if ended.restarts_job else Action.RESTART_REPLICA)
    if ended.may_retry and ended.restarts < _SPOT_RESTARTS:
        return Decision(Action.RESTART_JOB)
    return no_machines(location)


def no_machines(location: str) -> Decision:
    """Return the decision for a job if its region has no machines."""
    message = (
        f"Resources are insufficient in region: {location}. Try a different region or use a different accelerator."
    )
    return Decision(Action.FAILED, _RESOURCE_EXHAUSTED, message)


def _link(job_id: str, project: str) -> str:
    """Return the URL of a job's log in the Google Cloud console."""
    query = f'resource.type="ml_job"\nresource.labels.job_id="{job_id}"'
    resource = urllib.parse.quote(f"ml_job/job_id/{job_id}", safe="")
    return (
        f"https://console.cloud.google.com/logs/viewer?project={project}&resource={resource}"
        f"&advancedFilter={urllib.parse.quote(query, safe='')}"
    )
