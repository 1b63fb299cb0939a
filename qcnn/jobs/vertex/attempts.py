"""Attempts of a training job: creation, adoption and recovery of its Vertex AI jobs."""

import contextlib
import dataclasses
import datetime
import enum
import logging
import re
import time
from collections.abc import Callable, Iterable, Sequence

from qcnn.errors import ConfigError, QcnnError, RetryableError
from qcnn.jobs.job import CreateOutcome
from qcnn.jobs.vertex.client import JobClient, ResponseLostError, VertexJob
from qcnn.jobs.vertex.custom_job import JOB_LABEL, SPEC_LABEL
from qcnn.jobs.vertex.location import ENDED, creation_time, state_of
from qcnn.process.exit_codes import is_permanent_error
from qcnn.process.roles import ROLES

_ENDING = "CANCELLING"
_SUCCEEDED = "SUCCEEDED"
# Error message for a failed replica ("Understand the custom training service"). With a signal name in parentheses, the
# status is the signal number, not 128 + signal.
_REPLICA = re.compile(
    r"[Tt]he replica (?P<replica>\S+) (?P<out_of_memory>ran out[ -]of[ -]memory and )?"
    r"exited with a non-zero status of (?P<code>\d+) ?(?P<signal>\(SIG\w+\))?"
)
_IN_POOL = re.compile(r"workerpool(\d)-(\d+)")
_FIRST_SIGNAL = 128


@dataclasses.dataclass(frozen=True)
class Attempt:
    """Vertex AI job of a training job.

    `name` is its resource name, `state` its JobState without the prefix, `spec` its label SPEC_LABEL. `started` is True
    if the job has run. `code` and `message` are those of its error (google.rpc.Status).
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
        """The last part of the resource name."""
        return self.name.rpartition("/")[2]

    @property
    def has_ended(self) -> bool:
        """True if the state is final: no process runs or will start."""
        return self.state in ENDED

    @property
    def is_ending(self) -> bool:
        """True if the job is being cancelled and its processes may still run."""
        return self.state == _ENDING

    @property
    def is_active(self) -> bool:
        """True if processes run or will start."""
        return not self.has_ended and not self.is_ending

    @property
    def has_succeeded(self) -> bool:
        """True if the job has succeeded."""
        return self.state == _SUCCEEDED


@dataclasses.dataclass(frozen=True)
class ReplicaExit:
    """Exit of the process that caused a job to fail."""

    process: str
    code: int
    out_of_memory: bool

    @property
    def is_permanent_error(self) -> bool:
        """True if a retry would fail in the same way."""
        return self.out_of_memory or is_permanent_error(self.code)


def to_attempt(job: VertexJob) -> Attempt:
    """Convert a Vertex AI job to an attempt."""
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
    """Sort attempts by creation time and name, so that all launchers get the same order."""
    return sorted(attempts, key=lambda each: (each.created, each.name))


def process_name(replica: str) -> str:
    """Return role and index of a replica name such as workerpool0-0, or any other name unchanged."""
    match = _IN_POOL.fullmatch(replica)
    if not match or int(match[1]) >= len(ROLES):
        return replica
    return f"{ROLES[int(match[1])]} {int(match[2])}"


def root_cause_replica(message: str) -> ReplicaExit | None:
    """Return the process that caused a job to fail, or None if the message names no process.

    Processes with a permanent error take precedence.

    Args:
        message: Error message of the job.
    """
    exits = [
        ReplicaExit(
            process=process_name(each["replica"]),
            code=int(each["code"]) + (_FIRST_SIGNAL if each["signal"] and int(each["code"]) < _FIRST_SIGNAL else 0),
            out_of_memory=bool(each["out_of_memory"]),
        )
        for each in _REPLICA.finditer(message)
    ]
    return min(exits, key=lambda each: not each.is_permanent_error, default=None)


# google.rpc.Code.
_RESOURCE_EXHAUSTED, _INTERNAL, _UNAVAILABLE, _ABORTED = 8, 13, 14, 10
# Parts of Vertex AI's error messages ("Understand the custom training service", "Use Spot VMs with training"): no
# capacity or quota; preempted VMs, maintenance and internal errors.
_NO_MACHINES = ("resources are insufficient", "stockout", "quota")
_INTERRUPTED = ("preempt", "internal error", "maintenance")
# Part of the error message of a tuning job whose trials have failed.
_FAILED_TRIALS = "failed trials"


class FailureType(enum.Enum):
    """Reason why a job has ended without success."""

    PERMANENT = "a retry would fail in the same way"
    RETRYABLE = "a process or its VM failed with a retryable error"
    NO_CAPACITY = "no machines were available"
    CANCELLED = "a client cancelled the job"


class NextAction(enum.Enum):
    """Next action for a training job, given its Vertex AI jobs."""

    CREATE = "create a job"
    FOLLOW = "follow the existing job"
    WAIT = "check again later: a job is being cancelled, and its processes may still write"
    RETURN = "do nothing: a job has succeeded"


@dataclasses.dataclass(frozen=True)
class RecoveryPlan:
    """Next action and its job.

    The jobs in `surplus` are cancelled first.
    """

    step: NextAction
    job: Attempt | None = None
    surplus: tuple[Attempt, ...] = ()


def next_action(attempts: Sequence[Attempt]) -> RecoveryPlan:
    """Return the next action for a training job, given all of its Vertex AI jobs.

    Of several active jobs, the oldest is kept, by creation time and name, so that all launchers decide alike.
    """
    active = [each for each in sort_attempts(attempts) if each.is_active]
    if done := [each for each in sort_attempts(attempts) if each.has_succeeded]:
        return RecoveryPlan(NextAction.RETURN, done[0], tuple(active))
    if active:
        return RecoveryPlan(NextAction.FOLLOW, active[0], tuple(active[1:]))
    if ending := [each for each in attempts if each.is_ending]:
        return RecoveryPlan(NextAction.WAIT, ending[0])
    return RecoveryPlan(NextAction.CREATE)


def failure_type(attempt: Attempt) -> FailureType | None:
    """Return the failure type of a job that has ended, or None if it has succeeded."""
    if attempt.has_succeeded:
        return None
    if attempt.state == "CANCELLED":
        return FailureType.CANCELLED
    if replica := root_cause_replica(attempt.message):
        return FailureType.PERMANENT if replica.is_permanent_error else FailureType.RETRYABLE
    message = attempt.message.lower()
    if _FAILED_TRIALS in message:
        return FailureType.PERMANENT
    if attempt.code == _RESOURCE_EXHAUSTED or any(part in message for part in _NO_MACHINES):
        # A job that has run was preempted.
        return FailureType.RETRYABLE if attempt.started else FailureType.NO_CAPACITY
    if attempt.code in (_INTERNAL, _UNAVAILABLE, _ABORTED) or any(part in message for part in _INTERRUPTED):
        return FailureType.RETRYABLE
    return FailureType.PERMANENT


def count_retryable_failures(attempts: Sequence[Attempt]) -> int:
    """Return the number of jobs that have failed with a retryable error."""
    return sum(each.has_ended and failure_type(each) is FailureType.RETRYABLE for each in attempts)


def last_failure(attempts: Sequence[Attempt]) -> tuple[Attempt, FailureType] | None:
    """Return the newest job that has ended without success and its failure type, or None."""
    for each in reversed(sort_attempts(attempts)):
        reason = failure_type(each) if each.has_ended else None
        if reason:
            return each, reason
    return None


logger = logging.getLogger("qcnn")

# Timeout in seconds for creating a job while responses are lost, or while an earlier job is being cancelled.
_SECONDS = 600.0
# Seconds between two tries.
_RETRY_INTERVAL = 1.0


def create_or_adopt(
    api: JobClient,
    job: VertexJob,
    check: Callable[[Sequence[Attempt]], None] = lambda attempts: None,
    creating: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> tuple[Attempt, CreateOutcome]:
    """Create the Vertex AI job of a training job, or adopt an existing one.

    A job that has ended without success is replaced by a new job. A job for the same training run with other settings
    (image, memory, ...) is replaced only after it has ended.

    Args:
        api: Client for the type of the job.
        job: Job to create.
        check: Called with all existing jobs before a job is created. It may raise an error to prevent that.
        creating: Returns a context manager that is active during the creation.

    Returns:
        The job, and whether it was created, was adopted, or has succeeded.

    Raises:
        ConfigError: If a job runs with other settings, or Vertex AI rejects the job.
        QuotaError: If the quota is exhausted.
        RetryableError: If the API does not respond, or a job that is being cancelled does not end in time.
    """
    end = time.monotonic() + _SECONDS
    while True:
        attempts = list_attempts(api, job)
        plan = next_action(attempts)
        kept = _apply_plan(api, job, plan)
        if kept and plan.step is not NextAction.WAIT:
            return kept, CreateOutcome.SUCCEEDED if plan.step is NextAction.RETURN else CreateOutcome.ADOPTED
        reason = f"{api.kind.title} {kept.id} is being cancelled" if kept else ""
        if plan.step is NextAction.CREATE:
            check(attempts)
            try:
                with creating():
                    created = to_attempt(api.create(job))
                return _keep_oldest(api, job, created)
            except ResponseLostError as error:
                reason = str(error)
                logger.warning("%s; checking whether the job was created", reason)
        if time.monotonic() > end:
            raise RetryableError(f"{reason}, for {_SECONDS:g} s. Given: {api.place.endpoint}")
        time.sleep(_RETRY_INTERVAL)


def list_attempts(api: JobClient, job: VertexJob) -> list[Attempt]:
    """Return all Vertex AI jobs of the training job to which a job belongs."""
    return [to_attempt(found) for found in api.find(f"labels.{JOB_LABEL}={job.labels[JOB_LABEL]}")]


def cancel_unwatched(api: JobClient, name: str) -> None:
    """Cancel a job that no launcher follows.

    Errors are only logged, because the caller raises its own error.
    """
    try:
        api.cancel(name)
    except QcnnError as error:
        logger.warning("%s %s cannot be cancelled (%s)", api.kind.title, name, error)


def _keep_oldest(api: JobClient, job: VertexJob, created: Attempt) -> tuple[Attempt, CreateOutcome]:
    """Return the job to keep after a creation, which is an older job of another launcher if one exists."""
    attempts = list_attempts(api, job)
    if created.name not in {each.name for each in attempts}:
        attempts.append(created)
    plan = next_action(attempts)
    kept = _apply_plan(api, job, plan)
    if kept and kept.name != created.name and plan.step is not NextAction.WAIT:
        return kept, CreateOutcome.SUCCEEDED if plan.step is NextAction.RETURN else CreateOutcome.ADOPTED
    # The created job may have ended already, so it is not taken from the plan.
    return next(each for each in attempts if each.name == created.name), CreateOutcome.CREATED


def _apply_plan(api: JobClient, job: VertexJob, plan: RecoveryPlan) -> Attempt | None:
    """Cancel the surplus jobs of a plan and return its job.

    Raises:
        ConfigError: If the job to follow runs with other settings.
    """
    for each in plan.surplus:
        logger.warning("%s %s is a duplicate; cancelling it", api.kind.title, each.name)
        api.cancel(each.name)
    kept = plan.job
    if kept and plan.step is NextAction.FOLLOW and kept.spec != job.labels[SPEC_LABEL]:
        raise ConfigError(
            f"{api.kind.title}: the same training run is active with other settings; wait until it ends, or cancel it "
            f"to resume from its last checkpoint. Given: {kept.name}"
        )
    return kept
