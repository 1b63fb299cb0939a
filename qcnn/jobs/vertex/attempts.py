"""The custom jobs of one training, one after the other: which counts, what follows, and how one is created."""

import contextlib
import dataclasses
import datetime
import enum
import logging
import re
import time
from collections.abc import Callable, Iterable, Sequence

from qcnn.errors import ConfigError, QcnnError, RetryableError
from qcnn.jobs.vertex.client import JobClient, ResponseLostError, VertexJob
from qcnn.jobs.vertex.custom_job import JOB_LABEL, POOLS, SPEC_LABEL
from qcnn.jobs.vertex.location import ENDED, creation_time, state_of
from qcnn.startup import is_permanent_error

_ENDING = "CANCELLING"
_SUCCEEDED = "SUCCEEDED"
# What Vertex AI says of a process that ended too early ("Understand the custom training service"); a signal in brackets
# stands beside its own number instead of 128 and that.
_REPLICA = re.compile(
    r"[Tt]he replica (?P<replica>\S+) (?P<greedy>ran out[ -]of[ -]memory and )?"
    r"exited with a non-zero status of (?P<code>\d+) ?(?P<signal>\(SIG\w+\))?"
)
_IN_POOL = re.compile(r"workerpool(\d)-(\d+)")
_FIRST_SIGNAL = 128


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A job that was made for a training: its resource name, JobState without the prefix, and the label SPEC_LABEL.

    `started` tells whether it ever ran, `code` and `message` are those of its error (google.rpc.Status).
    """

    name: str
    created: datetime.datetime
    state: str
    spec: str = ""
    started: bool = False
    code: int = 0
    message: str = ""

    @property
    def id(self) -> str:
        """The last part of the name."""
        return self.name.rpartition("/")[2]

    @property
    def has_ended(self) -> bool:
        """Whether its processes are gone, and none will come."""
        return self.state in ENDED

    @property
    def is_ending(self) -> bool:
        """Whether it has been cancelled while its processes may still be there."""
        return self.state == _ENDING

    @property
    def is_alive(self) -> bool:
        """Whether it has processes, or will have some."""
        return not self.has_ended and not self.is_ending

    @property
    def has_succeeded(self) -> bool:
        """Whether it has done what it is for."""
        return self.state == _SUCCEEDED


@dataclasses.dataclass(frozen=True)
class ReplicaExit:
    """How a process ended that a job failed for."""

    process: str
    code: int
    out_of_memory: bool

    @property
    def is_permanent_error(self) -> bool:
        """Whether it would fail again in the same way."""
        return self.out_of_memory or is_permanent_error(self.code)


def attempt(job: VertexJob) -> Attempt:
    """Return what a job says of itself."""
    return Attempt(
        name=job.name,
        created=creation_time(job),
        state=state_of(job),
        spec=job.labels.get(SPEC_LABEL, ""),
        started=bool(job.start_time),
        code=job.error.code,
        message=job.error.message,
    )


def sort_attempts(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Return attempts with the oldest first, the same for whoever looks."""
    return sorted(attempts, key=lambda each: (each.created, each.name))


def process_name(replica: str) -> str:
    """Return role and index of what Vertex AI calls workerpool0-0; any other name as it is."""
    found = _IN_POOL.fullmatch(replica)
    if not found or int(found[1]) >= len(POOLS):
        return replica
    return f"{POOLS[int(found[1])]} {int(found[2])}"


def root_cause_replica(message: str) -> ReplicaExit | None:
    """Return the process that a job failed for, by its error: one with a fault of its own if there is one."""
    found = [
        ReplicaExit(
            process=process_name(each["replica"]),
            code=int(each["code"]) + (_FIRST_SIGNAL if each["signal"] and int(each["code"]) < _FIRST_SIGNAL else 0),
            out_of_memory=bool(each["greedy"]),
        )
        for each in _REPLICA.finditer(message)
    ]
    return min(found, key=lambda ended: not ended.is_permanent_error, default=None)


# google.rpc.Code.
_RESOURCE_EXHAUSTED, _INTERNAL, _UNAVAILABLE, _ABORTED = 8, 13, 14, 10
# What Vertex AI says of a job that found no machines, or lost one that was taken back ("Understand the custom training
# service", "Use Spot VMs with training"); and of a fault of its own.
_NO_MACHINES = ("resources are insufficient", "stockout", "quota")
_TAKEN_BACK = ("preempt", "internal error", "maintenance")
# What it says of a tuning job whose trials have failed.
_FAILED_TRIALS = "failed trials"


class FailureType(enum.Enum):
    """Why a job has ended without success."""

    OWN = "it would fail again in the same way"
    LOST = "a process or its machine was lost"
    NO_ROOM = "there were no machines for it"
    CANCELLED = "somebody cancelled it"


class NextAction(enum.Enum):
    """What is done about a training whose jobs have been looked at."""

    CREATE = "create a job"
    FOLLOW = "follow the job that is there"
    WAIT = "look again: a job is being cancelled, and its processes may still write"
    RETURN = "do nothing: it has succeeded"


@dataclasses.dataclass(frozen=True)
class RecoveryPlan:
    """What is done, about which job; those of `surplus` are cancelled first."""

    step: NextAction
    job: Attempt | None = None
    surplus: tuple[Attempt, ...] = ()


def next_action(attempts: Sequence[Attempt]) -> RecoveryPlan:
    """Return what is done about a training, by all of its jobs.

    Of several that live the oldest is kept, by the time of its creation, then by its name: so all that look come to the
    same end.
    """
    alive = [each for each in sort_attempts(attempts) if each.is_alive]
    if done := [each for each in sort_attempts(attempts) if each.has_succeeded]:
        return RecoveryPlan(NextAction.RETURN, done[0], tuple(alive))
    if alive:
        return RecoveryPlan(NextAction.FOLLOW, alive[0], tuple(alive[1:]))
    if ending := [each for each in attempts if each.is_ending]:
        return RecoveryPlan(NextAction.WAIT, ending[0])
    return RecoveryPlan(NextAction.CREATE)


def fault(attempt: Attempt) -> FailureType | None:
    """Return why a job that has ended did so, None for one that has succeeded."""
    if attempt.has_succeeded:
        return None
    if attempt.state == "CANCELLED":
        return FailureType.CANCELLED
    if ended := root_cause_replica(attempt.message):
        return FailureType.OWN if ended.is_permanent_error else FailureType.LOST
    message = attempt.message.lower()
    if _FAILED_TRIALS in message:
        return FailureType.OWN
    if attempt.code == _RESOURCE_EXHAUSTED or any(words in message for words in _NO_MACHINES):
        # A machine that was there has been taken back.
        return FailureType.LOST if attempt.started else FailureType.NO_ROOM
    if attempt.code in (_INTERNAL, _UNAVAILABLE, _ABORTED) or any(words in message for words in _TAKEN_BACK):
        return FailureType.LOST
    return FailureType.OWN


def losses(attempts: Sequence[Attempt]) -> int:
    """Return how many jobs of a training were lost, whoever followed them."""
    return sum(each.has_ended and fault(each) is FailureType.LOST for each in attempts)


def last_fault(attempts: Sequence[Attempt]) -> tuple[Attempt, FailureType] | None:
    """Return the newest job of a training that has ended without success, and why."""
    for each in reversed(sort_attempts(attempts)):
        why = fault(each) if each.has_ended else None
        if why:
            return each, why
    return None


logger = logging.getLogger("qcnn")

# A job is asked for as long as this while no answer comes, or while one before it is being cancelled, in seconds; the
# jobs that are there are looked at this often.
_SECONDS = 600.0
_LOOK_SECONDS = 1.0


class AttemptOutcome(enum.Enum):
    """How a job came to be there."""

    CREATED = "is created"
    ADOPTED = "is adopted"
    SUCCEEDED = "has already succeeded"


def create_or_adopt(
    api: JobClient,
    job: VertexJob,
    check: Callable[[Sequence[Attempt]], None] = lambda attempts: None,
    creating: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> tuple[Attempt, AttemptOutcome]:
    """Return the job of a training; one that has ended without success is followed by another.

    Before one is created, within `creating()`, `check` may refuse that by all that are there. A job that trains the
    same with other settings (image, memory, ...) is replaced only once it has ended.

    Raises:
        ConfigError: one runs with other settings, or Vertex AI refuses the job.
        QuotaError: there is no quota left for it.
        RetryableError: the API does not answer any more, or a job that is being cancelled does not end.
    """
    end = time.monotonic() + _SECONDS
    while True:
        attempts = list_attempts(api, job)
        plan = next_action(attempts)
        kept = _taken_up(api, job, plan)
        if kept and plan.step is not NextAction.WAIT:
            return kept, AttemptOutcome.SUCCEEDED if plan.step is NextAction.RETURN else AttemptOutcome.ADOPTED
        why = f"{api.kind.word} {kept.id} is being cancelled" if kept else ""
        if plan.step is NextAction.CREATE:
            check(attempts)
            try:
                with creating():
                    created = attempt(api.create(job))
                return _oldest(api, job, created)
            except ResponseLostError as error:
                why = str(error)
                logger.warning("%s; whether there is one is looked for", why)
        if time.monotonic() > end:
            raise RetryableError(f"{why}, for {_SECONDS:g} s. Given: {api.place.endpoint}")
        time.sleep(_LOOK_SECONDS)


def list_attempts(api: JobClient, job: VertexJob) -> list[Attempt]:
    """Return all jobs of the training that a job is for."""
    return [attempt(found) for found in api.find(f"labels.{JOB_LABEL}={job.labels[JOB_LABEL]}")]


def cancel_unwatched(api: JobClient, name: str) -> None:
    """Cancel a job that nobody will follow any more.

    Where that fails, a warning says so; the caller's own error counts.
    """
    try:
        api.cancel(name)
    except QcnnError as error:
        logger.warning("%s %s cannot be cancelled (%s)", api.kind.word, name, error)


def _oldest(api: JobClient, job: VertexJob, created: Attempt) -> tuple[Attempt, AttemptOutcome]:
    """Return the job that is kept, now that one was created: that of another launcher where it is older."""
    attempts = list_attempts(api, job)
    if created.name not in {each.name for each in attempts}:
        attempts.append(created)
    plan = next_action(attempts)
    kept = _taken_up(api, job, plan)
    if kept and kept.name != created.name and plan.step is not NextAction.WAIT:
        return kept, AttemptOutcome.SUCCEEDED if plan.step is NextAction.RETURN else AttemptOutcome.ADOPTED
    # It may have ended already.
    return next(each for each in attempts if each.name == created.name), AttemptOutcome.CREATED


def _taken_up(api: JobClient, job: VertexJob, plan: RecoveryPlan) -> Attempt | None:
    """Return the job of a plan, once those that are too many are cancelled.

    Raises:
        ConfigError: it runs with other settings.
    """
    for each in plan.surplus:
        logger.warning("%s %s is one too many; it is cancelled", api.kind.word, each.name)
        api.cancel(each.name)
    found = plan.job
    if found and plan.step is NextAction.FOLLOW and found.spec != job.labels[SPEC_LABEL]:
        raise ConfigError(
            f"{api.kind.word}: the same runs already, with other settings; wait for its end, or cancel it and go on "
            f"from its last checkpoint. Given: {found.name}"
        )
    return found
