"""The verdict on a followed job: a pure function of what was seen of it."""

import dataclasses
import enum
from collections.abc import Mapping, Sequence

from qcnn.jobs.kubernetes.lives import Lives
from qcnn.jobs.kubernetes.pods import Process, most_to_blame

# The news that a job has failed may come before that of its pod, by so many seconds.
POD_SECONDS = 3.0
# What the operator says of a job that it gave up for its pods, and not for its time.
_PODS_FAILED = "replica(s) failed"


class Action(enum.Enum):
    """What is done about a job."""

    GO_ON = "follow it further"
    SUCCEEDED = "return: it has succeeded"
    FAILED = "fail as it has failed"
    DELETED = "fail: somebody else has deleted it"
    GIVE_UP = "delete it and fail: it would be started again, and must not be"
    START_AGAIN = "replace it: it was given up though its processes may be started again"


@dataclasses.dataclass(frozen=True)
class Seen:
    """What is known of a followed job at one moment.

    `processes` are those that have a pod, None until pods were looked for; `known` are these and those whose pod is
    gone, by the uid of the pod. The job has ended once `leader` has ended well. Its processes may be started again
    `restarts` times; where that is None, nothing is done about the job. `failure` is what the cluster says of a job
    that has failed, and was first seen `failed_for` seconds ago.
    """

    leader: str
    restarts: int | None
    lives: Lives
    processes: Sequence[Process] | None = None
    known: Mapping[str, Process] = dataclasses.field(default_factory=dict)
    deleted: bool = False
    succeeded: bool = False
    failure: str | None = None
    failed_for: float = 0.0

    def see(self, processes: Sequence[Process], *, suspended: bool) -> "Seen":
        """Return what is known once all pods that are there were looked at."""
        return dataclasses.replace(
            self,
            processes=processes,
            lives=self.lives.see(processes, suspended=suspended),
            known={**self.known, **{process.uid: process for process in processes}},
        )


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is done, and why.

    `process` is the one to blame, None where it is no single one. Of a failure, `reason` is what an error says of it,
    without the last line of that process, and `is_final` whether a further try would fail in the same way. `lives` are
    those of a job that is replaced, the loss for which it was given up included.
    """

    action: Action
    process: Process | None = None
    reason: str = ""
    is_final: bool = False
    lives: Lives | None = None


def judge(seen: Seen) -> Verdict:
    """Return what is done about a job."""
    if seen.deleted:
        return Verdict(Action.DELETED, reason="it, or its namespace, was deleted while it was followed.")
    if seen.processes is None:
        return Verdict(Action.GO_ON)
    if seen.failure:
        return _judge_failed(seen, seen.processes, seen.failure)
    if seen.succeeded:
        return Verdict(Action.SUCCEEDED)
    return _judge_running(seen, seen.processes)


def _judge_running(seen: Seen, processes: Sequence[Process]) -> Verdict:
    is_done = any(process.name == seen.leader and process.exit_code == 0 for process in processes)
    if seen.restarts is None or is_done:
        return Verdict(Action.GO_ON)
    if greedy := [process for process in processes if process.out_of_memory]:
        return _blame(Action.GIVE_UP, greedy[0], seen.lives)
    if loss := seen.lives.one_too_many(seen.restarts):
        return _blame(Action.GIVE_UP, seen.known[loss.pod], seen.lives)
    return Verdict(Action.GO_ON)


def _judge_failed(seen: Seen, processes: Sequence[Process], failure: str) -> Verdict:
    blamed = most_to_blame(processes)
    if blamed is None and seen.failed_for < POD_SECONDS:
        return Verdict(Action.GO_ON)
    if seen.restarts is not None and _PODS_FAILED in failure and not (blamed and _is_final(blamed)):
        # The operator (1.9) takes a pod that is being deleted for one that has failed (updateJobReplicaStatuses),
        # whatever its exit code will be: so nodes that are drained or taken back end jobs that are to go on.
        lives = seen.lives.given_up()
        if lives.restarts <= seen.restarts:
            return Verdict(Action.START_AGAIN, reason="was given up for a process that was lost.", lives=lives)
        return Verdict(
            Action.FAILED, reason=f"processes were lost, after {seen.restarts} restarts: {failure}", lives=lives
        )
    if blamed is None:
        return Verdict(Action.FAILED, reason=failure, is_final=True)
    return _blame(Action.FAILED, blamed, seen.lives)


def _blame(action: Action, process: Process, lives: Lives) -> Verdict:
    """Return a verdict whose reason is how a process ended."""
    how = "was lost" if process.exit_code is None else f"ended with exit code {process.exit_code}"
    if process.out_of_memory:
        how = "used more memory than its limit"
    elif not process.own_fault:
        how += f", after {max(0, lives.restarts - 1)} restarts"
    return Verdict(action, process, f"{process.name} {how}", _is_final(process))


def _is_final(process: Process) -> bool:
    return process.own_fault or process.out_of_memory
