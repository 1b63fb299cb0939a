"""What is done about the jobs of a training: pure functions of what was seen of them."""

import dataclasses
import enum
from collections.abc import Sequence

from qcnn.jobs.vertex.attempts import Attempt, in_order, to_blame

# google.rpc.Code.
_RESOURCE_EXHAUSTED, _INTERNAL, _UNAVAILABLE, _ABORTED = 8, 13, 14, 10
# What Vertex AI says of a job that found no machines, or lost one that was taken back ("Understand the custom training
# service", "Use Spot VMs with training"); and of a fault of its own.
_NO_MACHINES = ("resources are insufficient", "stockout", "quota")
_TAKEN_BACK = ("preempt", "internal error", "maintenance")
# What it says of a tuning job whose trials have failed.
_FAILED_TRIALS = "failed trials"


class Fault(enum.Enum):
    """Why a job has ended without success."""

    OWN = "it would fail again in the same way"
    LOST = "a process or its machine was lost"
    NO_ROOM = "there were no machines for it"
    CANCELLED = "somebody cancelled it"


class Step(enum.Enum):
    """What is done about a training whose jobs have been looked at."""

    CREATE = "create a job"
    FOLLOW = "follow the job that is there"
    WAIT = "look again: a job is being cancelled, and its processes may still write"
    RETURN = "do nothing: it has succeeded"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is done, about which job; those of `surplus` are cancelled first."""

    step: Step
    job: Attempt | None = None
    surplus: tuple[Attempt, ...] = ()


def next_step(attempts: Sequence[Attempt]) -> Plan:
    """Return what is done about a training, by all of its jobs.

    Of several that live the oldest is kept, by the time of its creation, then by its name: so all that look come to the
    same end.
    """
    alive = [each for each in in_order(attempts) if each.is_alive]
    if done := [each for each in in_order(attempts) if each.has_succeeded]:
        return Plan(Step.RETURN, done[0], tuple(alive))
    if alive:
        return Plan(Step.FOLLOW, alive[0], tuple(alive[1:]))
    if ending := [each for each in attempts if each.is_ending]:
        return Plan(Step.WAIT, ending[0])
    return Plan(Step.CREATE)


def fault(attempt: Attempt) -> Fault | None:
    """Return why a job that has ended did so, None for one that has succeeded."""
    if attempt.has_succeeded:
        return None
    if attempt.state == "CANCELLED":
        return Fault.CANCELLED
    if ended := to_blame(attempt.message):
        return Fault.OWN if ended.own_fault else Fault.LOST
    message = attempt.message.lower()
    if _FAILED_TRIALS in message:
        return Fault.OWN
    if attempt.code == _RESOURCE_EXHAUSTED or any(words in message for words in _NO_MACHINES):
        # A machine that was there has been taken back.
        return Fault.LOST if attempt.started else Fault.NO_ROOM
    if attempt.code in (_INTERNAL, _UNAVAILABLE, _ABORTED) or any(words in message for words in _TAKEN_BACK):
        return Fault.LOST
    return Fault.OWN


def losses(attempts: Sequence[Attempt]) -> int:
    """Return how many jobs of a training were lost, whoever followed them."""
    return sum(each.has_ended and fault(each) is Fault.LOST for each in attempts)


def last_fault(attempts: Sequence[Attempt]) -> tuple[Attempt, Fault] | None:
    """Return the newest job of a training that has ended without success, and why."""
    for each in reversed(in_order(attempts)):
        why = fault(each) if each.has_ended else None
        if why:
            return each, why
    return None
