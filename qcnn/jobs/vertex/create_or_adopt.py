"""One training has one job that lives: it is created, or what is there already is taken up.

Vertex AI names jobs itself, so two launchers may create one each. Both look again after that, and keep the
oldest; what remains is the time until they have looked.
"""

import contextlib
import enum
import logging
import time
from collections.abc import Callable, Sequence

from qcnn.jobs.vertex.attempts import Attempt, attempt
from qcnn.jobs.vertex.client.api import Api, UnansweredError
from qcnn.jobs.vertex.client.kind import VertexJob
from qcnn.jobs.vertex.custom_job import JOB_LABEL, SPEC_LABEL
from qcnn.jobs.vertex.verdict import Plan, Step, next_step
from qcnn.trainer.errors import ConfigError, QcnnError, RetryableError

logger = logging.getLogger("qcnn")

# A job is asked for as long as this while no answer comes, or while one before it is being cancelled, in seconds; the
# jobs that are there are looked at this often.
_SECONDS = 600.0
_LOOK_SECONDS = 1.0


class How(enum.Enum):
    """How a job came to be there."""

    CREATED = "is created"
    ADOPTED = "is adopted"
    SUCCEEDED = "has already succeeded"


def create_or_adopt(
    api: Api,
    job: VertexJob,
    check: Callable[[Sequence[Attempt]], None] = lambda attempts: None,
    creating: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> tuple[Attempt, How]:
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
        attempts = look_at(api, job)
        plan = next_step(attempts)
        kept = _taken_up(api, job, plan)
        if kept and plan.step is not Step.WAIT:
            return kept, How.SUCCEEDED if plan.step is Step.RETURN else How.ADOPTED
        why = f"{api.kind.word} {kept.id} is being cancelled" if kept else ""
        if plan.step is Step.CREATE:
            check(attempts)
            try:
                with creating():
                    created = attempt(api.create(job))
                return _oldest(api, job, created)
            except UnansweredError as error:
                why = str(error)
                logger.warning("%s; whether there is one is looked for", why)
        if time.monotonic() > end:
            raise RetryableError(f"{why}, for {_SECONDS:g} s. Given: {api.place.endpoint}")
        time.sleep(_LOOK_SECONDS)


def look_at(api: Api, job: VertexJob) -> list[Attempt]:
    """Return all jobs of the training that a job is for."""
    return [attempt(found) for found in api.find(f"labels.{JOB_LABEL}={job.labels[JOB_LABEL]}")]


def abandon(api: Api, name: str) -> None:
    """Cancel a job that nobody will follow any more.

    Where that fails, a warning says so; the caller's own error counts.
    """
    try:
        api.cancel(name)
    except QcnnError as error:
        logger.warning("%s %s cannot be cancelled (%s)", api.kind.word, name, error)


def _oldest(api: Api, job: VertexJob, created: Attempt) -> tuple[Attempt, How]:
    """Return the job that is kept, now that one was created: that of another launcher where it is older."""
    attempts = look_at(api, job)
    if created.name not in {each.name for each in attempts}:
        attempts.append(created)
    plan = next_step(attempts)
    kept = _taken_up(api, job, plan)
    if kept and kept.name != created.name and plan.step is not Step.WAIT:
        return kept, How.SUCCEEDED if plan.step is Step.RETURN else How.ADOPTED
    # It may have ended already.
    return next(each for each in attempts if each.name == created.name), How.CREATED


def _taken_up(api: Api, job: VertexJob, plan: Plan) -> Attempt | None:
    """Return the job of a plan, once those that are too many are cancelled.

    Raises:
        ConfigError: it runs with other settings.
    """
    for each in plan.surplus:
        logger.warning("%s %s is one too many; it is cancelled", api.kind.word, each.name)
        api.cancel(each.name)
    found = plan.job
    if found and plan.step is Step.FOLLOW and found.spec != job.labels[SPEC_LABEL]:
        raise ConfigError(
            f"{api.kind.word}: the same runs already, with other settings; wait for its end, or cancel it and go on "
            f"from its last checkpoint. Given: {found.name}"
        )
    return found
