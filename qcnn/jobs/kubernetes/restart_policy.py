"""When a job has failed, and how often it was started again: pure functions of the pods that were seen."""

import collections
import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence

from qcnn.jobs.kubernetes.pods import PodProcess, root_cause_process

# Where one process is lost, all others end because they lost a peer, and are started again. A process that is back
# before the last of the others has ended connects to that one, and ends a second time for the same loss.
_MAX_EXITS = 2


@dataclasses.dataclass(frozen=True)
class ProcessFailure:
    """A process, in one pod, that ended too early; `caused_by_peer` where it ended only because it lost another process.

    `job` is the uid of the TFJob; a TFJob that replaces another one starts all processes anew.
    """

    job: str
    pod: str
    process: str
    caused_by_peer: bool = False


def count_restarts(losses: Iterable[ProcessFailure]) -> int:
    """Return how often a training had to be started again, by its losses in the order in which they were seen.

    Losses with one cause count once: those of a node's processes, and of the processes that lost them as peers.
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
    """What was seen of the processes of a training, each of which has one pod after the other.

    `job` is the uid of the TFJob, `current` the last pod of each process by its name. `endings` are the pods that
    ended or were told to end, in the order in which that was seen. `lost` are those of them that are known to be a
    loss, `excused` those that were ended on purpose, with the whole job.
    """

    job: str
    current: Mapping[str, PodProcess] = dataclasses.field(default_factory=dict)
    endings: tuple[ProcessFailure, ...] = ()
    lost: frozenset[str] = frozenset()
    excused: frozenset[str] = frozenset()

    @property
    def losses(self) -> list[ProcessFailure]:
        """What was lost, in the order in which it was seen.

        A pod that is told to end is a loss once another one has taken its place, or once a process has ended because
        it lost this one as a peer: the operator also tells pods to end when their job is over.
        """
        found: list[ProcessFailure] = []
        for ending in reversed(self.endings):
            if ending.pod not in self.excused and (found or ending.pod in self.lost):
                found.insert(0, ending)
        return found

    @property
    def restarts(self) -> int:
        """How often the training was started again, a restart that is due now included."""
        return count_restarts(self.losses)

    def failure_over_limit(self, allowed: int) -> ProcessFailure | None:
        """Return the loss after which the training would be started again more often than is allowed."""
        losses = self.losses
        return next((loss for number, loss in enumerate(losses, 1) if count_restarts(losses[:number]) > allowed), None)

    def observe(self, processes: Sequence[PodProcess], *, suspended: bool) -> "RestartTracker":
        """Return what is known once all pods that are there have been looked at.

        The operator ends the pods of a suspended job, which is no loss.
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
        """Return what is known once the operator has given the job up, though no process is at fault.

        It does so for a pod that is being deleted, and starts no other one in its place.
        """
        last = {process.uid for process in self.current.values()}
        # The first ending is the cause: later ones come of the job's failure. Without any, a pod has vanished unseen.
        first = next((ending.pod for ending in self.endings if ending.pod in last), None)
        endings = self.endings if first else (*self.endings, ProcessFailure(self.job, self.job, ""))
        return dataclasses.replace(self, endings=endings, lost=self.lost | {first or self.job})

    def for_job(self, job: str) -> "RestartTracker":
        """Return what is known as the job that replaces this one begins."""
        losses = self.losses
        return RestartTracker(job, endings=tuple(losses), lost=frozenset(loss.pod for loss in losses))

    def returned(self, process: PodProcess) -> bool:
        """Whether this pod has taken the place of one that was lost."""
        return self._is_replaced_by(process) and self.current[process.name].uid not in self.excused

    def _is_replaced_by(self, process: PodProcess) -> bool:
        return process.name in self.current and self.current[process.name].uid != process.uid

    def _with(self, ended: Iterable[PodProcess]) -> tuple[ProcessFailure, ...]:
        """Return all endings; among those that are seen at the same moment, causes come first."""
        known = {ending.pod for ending in self.endings}
        new = [
            ProcessFailure(self.job, each.uid, each.name, each.ended_by_peer) for each in ended if each.uid not in known
        ]
        return (*self.endings, *sorted(new, key=lambda loss: loss.caused_by_peer))


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
class Observation:
    """What is known of a followed job at one moment.

    `processes` are those that have a pod, None until pods were looked for; `known` are these and those whose pod is
    gone, by the uid of the pod. The job has ended once `leader` has ended well. Its processes may be started again
    `count_restarts` times; where that is None, nothing is done about the job. `failure` is what the cluster says of a job
    that has failed, and was first seen `failed_for` seconds ago.
    """

    leader: str
    restarts: int | None
    lives: RestartTracker
    processes: Sequence[PodProcess] | None = None
    known: Mapping[str, PodProcess] = dataclasses.field(default_factory=dict)
    deleted: bool = False
    succeeded: bool = False
    failure: str | None = None
    failed_for: float = 0.0

    def observe(self, processes: Sequence[PodProcess], *, suspended: bool) -> "Observation":
        """Return what is known once all pods that are there were looked at."""
        return dataclasses.replace(
            self,
            processes=processes,
            tracker=self.tracker.observe(processes, suspended=suspended),
            known={**self.known, **{process.uid: process for process in processes}},
        )


@dataclasses.dataclass(frozen=True)
class Decision:
    """What is done, and why.

    `process` is the one to blame, None where it is no single one. Of a failure, `reason` is what an error says of it,
    without the last line of that process, and `is_final` whether a further try would fail in the same way. `lives` are
    those of a job that is replaced, the loss for which it was given up included.
    """

    action: Action
    process: PodProcess | None = None
    reason: str = ""
    is_final: bool = False
    lives: RestartTracker | None = None


def decide(seen: Observation) -> Decision:
    """Return what is done about a job."""
    if seen.deleted:
        return Decision(Action.DELETED, reason="it, or its namespace, was deleted while it was followed.")
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
    if greedy := [process for process in processes if process.out_of_memory]:
        return _failure_decision(Action.CANCEL, greedy[0], seen.tracker)
    if loss := seen.tracker.failure_over_limit(seen.restarts):
        return _failure_decision(Action.CANCEL, seen.known[loss.pod], seen.tracker)
    return Decision(Action.CONTINUE)


def _decide_failed(seen: Observation, processes: Sequence[PodProcess], failure: str) -> Decision:
    blamed = root_cause_process(processes)
    if blamed is None and seen.failed_for < POD_SECONDS:
        return Decision(Action.CONTINUE)
    if seen.restarts is not None and _PODS_FAILED in failure and not (blamed and _is_final(blamed)):
        # The operator (1.9) takes a pod that is being deleted for one that has failed (updateJobReplicaStatuses),
        # whatever its exit code will be: so nodes that are drained or taken back end jobs that are to go on.
        lives = seen.tracker.job_abandoned()
        if lives.restarts <= seen.restarts:
            return Decision(Action.REPLACE, reason="was given up for a process that was lost.", tracker=lives)
        return Decision(
            Action.FAILED, reason=f"processes were lost, after {seen.restarts} restarts: {failure}", tracker=lives
        )
    if blamed is None:
        return Decision(Action.FAILED, reason=failure, is_final=True)
    return _failure_decision(Action.FAILED, blamed, seen.tracker)


def _failure_decision(action: Action, process: PodProcess, lives: RestartTracker) -> Decision:
    """Return a verdict whose reason is how a process ended."""
    how = "was lost" if process.exit_code is None else f"ended with exit code {process.exit_code}"
    if process.out_of_memory:
        how = "used more memory than its limit"
    elif not process.is_permanent_error:
        how += f", after {max(0, lives.restarts - 1)} restarts"
    return Decision(action, process, f"{process.name} {how}", _is_final(process))


def _is_final(process: PodProcess) -> bool:
    return process.is_permanent_error or process.out_of_memory
