"""What a TFJob says about itself, by pure functions (kubeflow.org/v1 TFJob, as the API returns it)."""

from typing import Any

from launchers.kubernetes.kinds import condition
from launchers.kubernetes.pod_template import CONTAINER, JOB_VARIABLE
from launchers.tfjob.kind import REPLICA_TYPES
from launchers.tfjob.manifest import SWITCH, SWITCH_SECONDS

# What the leading process writes, each below the job's own folder: folder and flag.
EXPORT = "--model"
OUTPUTS = {"training": "--workdir", "logs": "--logs", "model": EXPORT}
# From the one that says most to the one that says least.
_STATES = ("Failed", "Succeeded", "Suspended", "Restarting", "Running", "Created")


def state(job: dict[str, Any]) -> str:
    """Return the condition that a TFJob is in; Deleting where it is to be gone, New where nobody took it up."""
    if "deletionTimestamp" in job["metadata"]:
        return "Deleting"
    return next((kind for kind in _STATES if condition(job, kind)), "New")


def has_ended(job: dict[str, Any]) -> bool:
    """Whether nothing of it runs any more, or will."""
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


def argument(job: dict[str, Any], flag: str) -> str | None:
    """Return what the training is given by a flag, as it reaches it; None where it is not given."""
    command = _command(job)
    if flag not in command[:-1]:
        return None
    return command[command.index(flag) + 1].replace(f"$({JOB_VARIABLE})", job["metadata"]["name"])


def switch_seconds(job: dict[str, Any]) -> int | None:
    """Return how long it outlives its launcher, None for one that needs none."""
    if tuple(_command(job)[: len(SWITCH)]) != SWITCH:
        return None
    return int(argument(job, SWITCH_SECONDS) or 0)


def _command(job: dict[str, Any]) -> list[str]:
    containers = leading_template(job)["spec"]["containers"]
    return next(
        (
            [*container.get("command", ()), *container.get("args", ())]
            for container in containers
            if container["name"] == CONTAINER
        ),
        [],
    )
