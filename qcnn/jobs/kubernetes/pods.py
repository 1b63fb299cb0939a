"""What the pods of a job and their events say, by pure functions (core/v1, as the API returns them)."""

import collections
import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from qcnn.errors import one_line
from qcnn.jobs.kubernetes.kinds import Kind
from qcnn.jobs.kubernetes.manifest import CONTAINER
from qcnn.startup import RETRYABLE, is_own_fault

# Reasons for which a container waits while it starts normally; all others are trouble.
_ON_ITS_WAY = ("ContainerCreating", "PodInitializing")


@dataclasses.dataclass(frozen=True)
class Process:
    """One process of a job.

    `exit_code` is None until it has ended. `trouble` says in one line why it has not started, None where it has or
    where that is not known.
    """

    pod: str
    uid: str
    role: str
    index: int
    started: bool
    exit_code: int | None
    told_to_end: bool
    out_of_memory: bool
    trouble: str | None

    @property
    def name(self) -> str:
        """Role and index."""
        return f"{self.role} {self.index}"

    @property
    def own_fault(self) -> bool:
        """Whether it ended by a fault of its own, after which the operator does not start it again."""
        return self.exit_code is not None and is_own_fault(self.exit_code)

    @property
    def lost_a_peer(self) -> bool:
        """Whether it ended because another process did, by its own exit code."""
        return self.exit_code == RETRYABLE

    @property
    def lost(self) -> bool:
        """Whether it failed neither by its own fault nor because it was told to end."""
        return bool(self.exit_code) and not self.own_fault and not self.told_to_end


def read(pod: dict[str, Any], kind: Kind) -> Process:
    """Return what a pod of a job of this kind says of the process in it."""
    metadata, status = pod["metadata"], pod.get("status", {})
    labels = metadata["labels"]
    state: dict[str, Any] = {}
    for container in status.get("containerStatuses", ()):
        if container["name"] == CONTAINER:
            state = container.get("state", {})
    terminated = state.get("terminated")
    return Process(
        pod=metadata["name"],
        uid=metadata["uid"],
        role=labels[kind.role_label],
        index=int(labels[kind.index_label]) if kind.index_label else 0,
        started=bool(terminated or "running" in state),
        exit_code=terminated["exitCode"] if terminated else None,
        told_to_end="deletionTimestamp" in metadata,
        out_of_memory=terminated is not None and terminated.get("reason") == "OOMKilled",
        trouble=_trouble(status, state),
    )


def of_job(found: Iterable[dict[str, Any]], job: dict[str, Any], kind: Kind) -> list[Process]:
    """Return the processes of a job; pods of an earlier job of its name, which have not gone yet, are none of them."""
    uid = job["metadata"]["uid"]
    own = (pod for pod in found if any(owner["uid"] == uid for owner in pod["metadata"].get("ownerReferences", ())))
    return [read(pod, kind) for pod in own]


def most_to_blame(processes: Iterable[Process]) -> Process | None:
    """Return a process that failed by its own fault, else one that was killed, else one that lost a peer, else None."""
    failed = [process for process in processes if process.exit_code]
    return min(failed, key=lambda process: (not process.own_fault, process.lost_a_peer), default=None)


def _trouble(status: dict[str, Any], state: dict[str, Any]) -> str | None:
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"cannot be scheduled: {one_line(condition.get('message', condition.get('reason', '')))}"
    waiting = state.get("waiting", {})
    if waiting and waiting.get("reason") not in _ON_ITS_WAY:
        return f"cannot start, {waiting.get('reason')}: {one_line(waiting.get('message', ''))}"
    return None


# The kubelet reports the cause of a failed pull once, and then only the state's name, as "Error: ImagePullBackOff".
_NAME_ALONE = re.compile(r"Error: \w+")
# As in 'Error creating: pods "a-worker-0" is forbidden: exceeded quota'.
_POD = re.compile(r'pods "([^"]+)"')


def last_warning(warnings: Iterable[Mapping[str, Any]], reason: str = "", pod: str = "") -> str | None:
    """Return in one line the last of an object's warnings whose reason begins so, None if there is none.

    A warning that says why is preferred to those that only name the state. With `pod`, those that name another pod are
    left out.
    """
    telling = [
        event
        for event in warnings
        if event["reason"].startswith(reason) and (not pod or set(_POD.findall(event["message"])) <= {pod})
    ]
    if not telling:
        return None
    last = max(telling, key=lambda event: (not _NAME_ALONE.fullmatch(event["message"]), _when(event)))
    return f"cannot start, {last['reason']}: {one_line(last['message'])}"


def restarts(job: Mapping[str, Any], scheduled: Iterable[Mapping[str, Any]], processes: Iterable[Process]) -> int:
    """Return how often a TFJob was started again since its last suspension, or as far back as events are kept.

    `scheduled` are the events of pods that got a node: one for each time that a process was started. The operator's own
    count of restarts cannot be used, as it drops events where there are many.
    """
    metadata, prefix = job["metadata"], f"{job['metadata']['name']}-"
    began = max([metadata["creationTimestamp"], *_suspensions(job)])
    objects = [event["involvedObject"] for event in scheduled if event["metadata"]["creationTimestamp"] >= began]
    lives = {(found["name"], found["uid"]) for found in objects if found["name"].startswith(prefix)}
    lives |= {(process.pod, process.uid) for process in processes}
    return max(collections.Counter(name for name, _ in lives).values(), default=1) - 1


def _when(event: Mapping[str, Any]) -> str:
    return event.get("lastTimestamp") or event.get("eventTime") or ""


def _suspensions(job: Mapping[str, Any]) -> list[str]:
    """Return when a TFJob was last suspended or resumed."""
    conditions = job.get("status", {}).get("conditions", ())
    return [found["lastTransitionTime"] for found in conditions if found["type"] == "Suspended"]
