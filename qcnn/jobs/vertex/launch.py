"""Launcher of training jobs on Vertex AI, which cancels its jobs on SIGTERM.

Vertex AI sends SIGTERM to the container of a step whose pipeline is cancelled. Google's components then also cancel
their job (google_cloud_pipeline_components, container/utils/execution_context.py).
"""

import contextlib
import itertools
import logging
import math
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence

from qcnn.errors import ConfigError, RetryableError, TrainingError, service_message
from qcnn.jobs.job import CreateOutcome, last_error_line
from qcnn.jobs.termination import Termination
from qcnn.jobs.vertex.attempts import (
    Attempt,
    FailureType,
    cancel_unwatched,
    count_retryable_failures,
    create_or_adopt,
    failure_type,
    last_failure,
    list_attempts,
    root_cause_replica,
)
from qcnn.jobs.vertex.client import JobClient, QuotaError, VertexJob, aiplatform, kind_of
from qcnn.jobs.vertex.custom_job import JOB_LABEL
from qcnn.jobs.vertex.job_watcher import CapacityTimeout, JobLogReader, JobReporter, wait_for_job
from qcnn.jobs.vertex.location import VertexLocation, job_page, logging_endpoint_of

# Seconds to look for a job whose creation is in progress. A container has at most 30 s after SIGTERM.
GRACE = 5.0


logger = logging.getLogger("qcnn")

# Vertex AI takes minutes to start a VM, and minutes to pull an image.
PENDING_SECONDS = 1800.0
# Seconds between two requests when no machines are available.
_FIRST_PAUSE, _MAX_PAUSE = 1.0, 60.0


def launch(
    job: VertexJob,
    place: VertexLocation,
    *,
    restarts: int,
    pending_seconds: float | None = None,
    news: Callable[[JobClient, Attempt], JobReporter] | None = None,
) -> Attempt:
    """Create or adopt a Vertex AI job, and wait until it succeeds.

    An active job is adopted, and a job that has succeeded is returned immediately. After a retryable error, a new job
    resumes from the last checkpoint. A training job with a permanent error is not retried under the same name. On
    SIGTERM, the active jobs are cancelled and this process exits.

    Args:
        job: Job to create.
        place: Project and location.
        restarts: Maximum number of new jobs after retryable errors, over all launchers.
        pending_seconds: Timeout for missing quota or machines. Default: `PENDING_SECONDS`, after the waiting time that
            the job itself requests.
        news: Creates the reporter of a job. Default: print the log lines of its processes.

    Returns:
        The job that has succeeded.

    Raises:
        ConfigError: If Vertex AI rejects the job, or no machines are available within the timeout.
        TrainingError: If a process fails with a permanent error. Its last lines are logged.
        RetryableError: If retryable errors exceed `restarts`, another client cancels or deletes the job, or the API
            does not respond.
    """
    label = job.labels[JOB_LABEL]
    kind = kind_of(job)
    capacity = CapacityTimeout(
        _pending_seconds(kind.processes(job)) if pending_seconds is None else pending_seconds, kind.title
    )
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(contextlib.closing(JobClient(place, kind)))
        ending = Termination(lambda: _cancel_all(api, job), kind.title, label, "cancelled", GRACE)
        termination = stack.enter_context(ending.installed())

        def check(attempts: Sequence[Attempt]) -> None:
            _check_history(kind.title, attempts, restarts)

        pauses = _pauses()
        while True:
            try:
                found, outcome = create_or_adopt(api, job, check, termination.creating)
            except QuotaError as error:
                capacity.record_missing(error, label)
                logger.warning("%s; retrying", error)
                time.sleep(next(pauses))
                continue
            logger.info("%s %s %s: %s", kind.title, found.id, outcome.value, job_page(place, found.id))
            if outcome is CreateOutcome.SUCCEEDED:
                return found
            with contextlib.closing((news or _log_reader)(api, found)) as reporter:
                ended = _wait_or_cancel(api, job, found, reporter, capacity)
                failure = failure_type(ended) if ended.has_ended else None
                if failure is FailureType.PERMANENT:
                    raise _permanent_error(kind.title, ended, reporter)
            if ended.has_succeeded:
                return ended
            if failure is FailureType.CANCELLED:
                raise RetryableError(f"{kind.title}: was cancelled by another client. Given: {ended.name}")
            if failure is FailureType.NO_CAPACITY:
                capacity.record_missing(service_message(ended.message), label)
                logger.warning("no machines available (%s); retrying", service_message(ended.message))
                time.sleep(next(pauses))
            if failure is FailureType.RETRYABLE:
                count = count_retryable_failures(list_attempts(api, job))
                _check_restarts(kind.title, ended, count, restarts)
                logger.warning("%s; restarting the job (%d of %d)", service_message(ended.message), count, restarts)


def _log_reader(api: JobClient, job: Attempt) -> JobLogReader:
    return JobLogReader(logging_endpoint_of(os.environ), api.place.project, job)


def _wait_or_cancel(
    api: JobClient, job: VertexJob, found: Attempt, reporter: JobReporter, capacity: CapacityTimeout
) -> Attempt:
    """Wait for a job (see `wait_for_job`), and cancel it if it gets no machines."""
    try:
        return wait_for_job(api, job, found, reporter, capacity)
    except ConfigError:
        cancel_unwatched(api, found.name)
        raise


def _check_history(title: str, attempts: Sequence[Attempt], restarts: int) -> None:
    """Check that earlier jobs permit another one.

    Raises:
        TrainingError: If the last failure was a permanent error.
        RetryableError: If retryable errors exceed `restarts`.
    """
    last = last_failure(attempts)
    if last and last[1] is FailureType.PERMANENT:
        raise TrainingError(f"{title}: has failed before: {service_message(last[0].message)} Given: {last[0].name}")
    if last:
        _check_restarts(title, last[0], count_retryable_failures(attempts), restarts)


def _check_restarts(title: str, last: Attempt, count: int, restarts: int) -> None:
    if count > restarts:
        raise RetryableError(
            f"{title}: has failed, after {restarts} restarts: {service_message(last.message)} Given: {last.name}"
        )


def _permanent_error(title: str, ended: Attempt, reporter: JobReporter) -> TrainingError:
    """Log the last lines of the process that failed, and return the error of the training job."""
    replica = root_cause_replica(ended.message)
    if not replica:
        return TrainingError(f"{title}: {ended.state}: {service_message(ended.message)} Given: {ended.name}")
    last = reporter.last_lines(replica.process)
    logger.info("last lines of %s:", replica.process)
    for line in last:
        logger.info("    %s", line)
    how = "used more memory than its machine has" if replica.out_of_memory else f"ended with exit code {replica.code}"
    return TrainingError(f"{replica.process} {how}: {last_error_line(last)}. Given: {ended.name}")


def _cancel_all(api: JobClient, job: VertexJob) -> bool:
    """Cancel all active jobs of a training job and return whether there were any."""
    active = [each for each in list_attempts(api, job) if each.is_active]
    for each in active:
        api.cancel(each.name)
    return bool(active)


def _pauses() -> Iterator[float]:
    """Yield the seconds to wait between requests when no machines are available."""
    for count in itertools.count():
        yield min(_FIRST_PAUSE * 2**count, _MAX_PAUSE) * random.uniform(0.8, 1.2)


def _pending_seconds(processes: aiplatform.CustomJobSpec) -> float:
    """Return the timeout for machines in seconds, including the requested wait of a FLEX_START job."""
    scheduling = processes.scheduling
    if scheduling.strategy != aiplatform.Scheduling.Strategy.FLEX_START:
        return PENDING_SECONDS
    return scheduling.max_wait_duration.total_seconds() + PENDING_SECONDS if scheduling.max_wait_duration else math.inf
