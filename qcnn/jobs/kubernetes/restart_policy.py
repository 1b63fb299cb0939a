"""Restart policy of a job: pure functions of the observed pods."""

import collections
import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence

from qcnn.jobs.kubernetes.pods import OUT_OF_MEMORY, PodProcess, root_cause_process

# When one process is lost, all others exit because they lost a peer, and are restarted. A process that restarts before
# the last of the others has exited connects to that one, and exits a second time for the same loss.
_MAX_EXITS = 2


@dataclasses.dataclass(frozen=True)
class ProcessFailure:
    """Process, in one pod, that ended early.

    `caused_by_peer` is true if the loss of another process was the cause. `job` is the uid of the job object. An object
    that replaces another one restarts all processes.
    """

    job: str
    pod: str
    process: str
    caused_by_peer: bool = False


def count_restarts(losses: Iterable[ProcessFailure]) -> int:
    """Return the number of restarts that a sequence of losses, in the order of observation, has caused.

    Losses with one cause count once: those of all processes of a node, and of the processes that lost them as peers.
    """
    count, job, has_cause = 0, "", False
    ends: collections.Counter[str] = collections.Counter()
    for loss in losses:
        allowed = _MAX_EXITS if loss.caused_by_peer and has_cause else 1
        if loss.job != job or ends[loss.process] >= allowed:
            count, job, has_cause = count + 1, loss.job, False
            ends.clear()
        ends[loss.process] += 1
        has_cause = has_cause or not loss.caused_by_peer
    return count


@dataclasses.dataclass(frozen=True)
class RestartTracker:
    """State of the processes of a job, each of which has a sequence of pods.

    `job` is the uid of the job object, `current` the last pod of each process by its name. `endings` are the pods that
    ended or are terminating, in the order of observation. `lost` are those that are known to be a loss, `excused`
    those that were ended on purpose, together with the job.
    """

    job: str
    current: Mapping[str, PodProcess] = dataclasses.field(default_factory=dict)
    endings: tuple[ProcessFailure, ...] = ()
    lost: frozenset[str] = frozenset()
    excused: frozenset[str] = frozenset()

    @property
    def losses(self) -> list[ProcessFailure]:
        """Losses in the order of observation.

        A terminating pod is a loss if another pod has replaced it, or if a process has ended because it lost this peer:
        the operator also terminates pods when their job has completed.
        """
        found: list[ProcessFailure] = []
        for ending in reversed(self.endings):
            if ending.pod not in self.excused and (found or ending.pod in self.lost):
                found.insert(0, ending)
        return found

    @property
    def restarts(self) -> int:
        """Number of restarts, including one that is due now."""
        return count_restarts(self.losses)

    def failure_over_limit(self, allowed: int) -> ProcessFailure | None:
        """Return the first loss that would cause more than `allowed` restarts, or None."""
        losses = self.losses
        return next((loss for number, loss in enumerate(losses, 1) if count_restarts(losses[:number]) > allowed), None)

    def observe(self, processes: Sequence[PodProcess], *, suspended: bool) -> "RestartTracker":
        """Return the tracker after an observation of all existing pods.

        The operator deletes the pods of a suspended job, which is not a loss.
        """
        replaced = [self.current[each.name] for each in processes if self._is_replaced_by(each)]
        current = {**self.current, **{process.name: process for process in processes}}
        ended = [*replaced, *(process for process in processes if process.lost or process.is_terminating)]
        return dataclasses.replace(
            self,
            current=current,
            endings=self._with(ended),
            lost=self.lost | {each.uid for each in replaced} | {each.uid for each in processes if each.lost},
            excused=self.excused | {process.uid for process in current.values() if suspended},
        )

    def job_abandoned(self) -> "RestartTracker":
        """Return the tracker after the operator has failed the job although no process has failed permanently.

        The operator does so for a pod that is being deleted, and does not replace that pod.
        """
        last = {process.uid for process in self.current.values()}
        # The first ending is the cause; later ones follow from it. Without any, a pod was deleted between observations.
        first = next((ending.pod for ending in self.endings if ending.pod in last), None)
        endings = self.endings if first else (*self.endings, ProcessFailure(self.job, self.job, ""))
        return dataclasses.replace(self, endings=endings, lost=self.lost | {first or self.job})

    def for_job(self, job: str) -> "RestartTracker":
        """Return the tracker at the start of `job`, which replaces this one."""
        losses = self.losses
        return RestartTracker(job, endings=tuple(losses), lost=frozenset(loss.pod for loss in losses))

    def is_replacement(self, process: PodProcess) -> bool:
        """Return True if this pod has replaced one that was lost."""
        return self._is_replaced_by(process) and self.current[process.name].uid not in self.excused

    def _is_replaced_by(self, process: PodProcess) -> bool:
        return process.name in self.current and self.current[process.name].uid != process.uid

    def _with(self, ended: Iterable[PodProcess]) -> tuple[ProcessFailure, ...]:
        """Return all endings, with causes first among those of the same observation."""
        known = {ending.pod for ending in self.endings}
        new = [
            ProcessFailure(self.job, each.uid, each.name, each.ended_by_peer) for each in ended if each.uid not in known
        ]
        return (*self.endings, *sorted(new, key=lambda loss: loss.caused_by_peer))


# The failure of a job may be observed this many seconds before that of its pod.
POD_SECONDS = 3.0


class Action(enum.Enum):
    """Action of the launcher."""

    CONTINUE = "continue to watch the job"
    SUCCEEDED = "return, the job has succeeded"
    FAILED = "raise the failure of the job"
    DELETED = "fail, the job was deleted from outside"
    CANCEL = "delete the job and fail, its restart limit is exceeded"
    REPLACE = "replace the job, which has failed although restarts are left"


@dataclasses.dataclass(frozen=True)
class Observation:
    """Snapshot of a watched job.

    `processes` are those with a pod, None before the first listing of pods; `known` adds those whose pod was deleted,
    by the uid of the pod. The job is complete when `leader` has succeeded. Its processes may be restarted `restarts`
    times; None means that the launcher only watches. `failure` is the cluster's reason of a failed job, first observed
    `failed_for` seconds ago. `pods_failed`: whether the operator failed the job because of a pod, although restarts may
    be left.
    """

    leader: str
    restarts: int | None
    tracker: RestartTracker
    processes: Sequence[PodProcess] | None = None
    known: Mapping[str, PodProcess] = dataclasses.field(default_factory=dict)
    deleted: bool = False
    succeeded: bool = False
    failure: str | None = None
    failed_for: float = 0.0
    pods_failed: bool = False

    def observe(self, processes: Sequence[PodProcess], *, suspended: bool) -> "Observation":
        """Return the snapshot after an observation of all existing pods."""
        return dataclasses.replace(
            self,
            processes=processes,
            tracker=self.tracker.observe(processes, suspended=suspended),
            known={**self.known, **{process.uid: process for process in processes}},
        )


@dataclasses.dataclass(frozen=True)
class Decision:
    """Action and its reason.

    `process` is the root cause, or None without a single one. `reason` is the error message of a failure, without the
    last line of that process; `is_final` is true if a further attempt would fail in the same way. `tracker` is that of
    a replaced job, including the loss that has ended it.
    """

    action: Action
    process: PodProcess | None = None
    reason: str = ""
    is_final: bool = False
    tracker: RestartTracker | None = None


def decide(seen: Observation) -> Decision:
    """Return the action for the snapshot of a job."""
    if seen.deleted:
        return Decision(Action.DELETED, reason="it, or its namespace, was deleted from outside.")
    if seen.processes is None:
        return Decision(Action.CONTINUE)
    if seen.failure:
        return _decide_failed(seen, seen.processes, seen.failure)
    if seen.succeeded:
        return Decision(Action.SUCCEEDED)
    return _decide_running(seen, seen.processes)


def _decide_running(seen: Observation, processes: Sequence[PodProcess]) -> Decision:
    is_done = any(process.name == seen.leader and process.exit_code == 0 for process in processes)
    if seen.restarts is None or is_done:
        return Decision(Action.CONTINUE)
    if over_limit := [process for process in processes if process.out_of_memory]:
        return _failure_decision(Action.CANCEL, over_limit[0], seen.tracker)
    if loss := seen.tracker.failure_over_limit(seen.restarts):
        return _failure_decision(Action.CANCEL, seen.known[loss.pod], seen.tracker)
    return Decision(Action.CONTINUE)


def _decide_failed(seen: Observation, processes: Sequence[PodProcess], failure: str) -> Decision:
    blamed = root_cause_process(processes)
    if blamed is None and seen.failed_for < POD_SECONDS:
        return Decision(Action.CONTINUE)
    if seen.restarts is not None and seen.pods_failed and not (blamed and _is_final(blamed)):
        # The operator (1.9) counts a pod that is being deleted as failed (updateJobReplicaStatuses), whatever its exit
        # code will be. Drained or preempted nodes thereby end jobs that must continue.
        tracker = seen.tracker.job_abandoned()
        if tracker.restarts <= seen.restarts:
            return Decision(Action.REPLACE, reason="was given up for a process that was lost.", tracker=tracker)
        return Decision(
            Action.FAILED, reason=f"processes were lost, after {seen.restarts} restarts: {failure}", tracker=tracker
        )
    if blamed is None:
        return Decision(Action.FAILED, reason=failure, is_final=True)
    return _failure_decision(Action.FAILED, blamed, seen.tracker)


def _failure_decision(action: Action, process: PodProcess, tracker: RestartTracker) -> Decision:
    """Return a decision whose reason is the exit of a process."""
    how = "was lost" if process.exit_code is None else f"ended with exit code {process.exit_code}"
    if process.out_of_memory:
        how = OUT_OF_MEMORY
    elif not process.is_permanent_error:
        how += f", after {max(0, tracker.restarts - 1)} restarts"
    return Decision(action, process, f"{process.name} {how}", _is_final(process))


def _is_final(process: PodProcess) -> bool:
    return process.is_permanent_error or process.out_of_memory
