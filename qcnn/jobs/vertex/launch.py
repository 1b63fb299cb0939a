"""What a launcher does that is told to end: it has its training's jobs cancelled.

Vertex AI sends SIGTERM to the container of a step whose pipeline is cancelled. Google's own components cancel their job
then, too (google_cloud_pipeline_components, container/utils/execution_context.py).
"""

import contextlib
import itertools
import logging
import math
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from qcnn.errors import ConfigError, RetryableError, TrainingError, single_line
from qcnn.jobs.job import PendingCreation, last_error_line
from qcnn.jobs.vertex.attempts import (
    Attempt,
    AttemptOutcome,
    FailureType,
    cancel_unwatched,
    create_or_adopt,
    fault,
    last_fault,
    list_attempts,
    losses,
    root_cause_replica,
)
from qcnn.jobs.vertex.client import JobClient, QuotaError, VertexJob, aiplatform, kind_of
from qcnn.jobs.vertex.custom_job import JOB_LABEL
from qcnn.jobs.vertex.job_watcher import CapacityTimeout, JobLogReader, JobReporter, follow
from qcnn.jobs.vertex.location import VertexLocation, job_page, logging_endpoint_of
from qcnn.startup import end_now

# A job whose creation is under way is looked for this long, in seconds; a container has 30 at most.
GRACE = 5.0


class Termination:
    """Ends this process when SIGTERM or Ctrl-C comes, after `cancel`, which tells whether it found any job.

    `word` is what the job is called, `name` that of what it does.
    A thread of its own does that: the main thread may be inside the client library.
    """

    def __init__(self, cancel: Callable[[], bool], word: str, name: str) -> None:
        self._cancel = cancel
        self._word = word
        self._name = name
        self.creation = PendingCreation()

    @contextlib.contextmanager
    def installed(self) -> Iterator["Termination"]:
        """Handle the signals within this block; outside of the main thread, which alone can, do nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        arrived, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        threading.Thread(target=self._wait, args=(arrived,), name="signals", daemon=True).start()
        descriptor = signal.set_wakeup_fd(wakeup)
        previous = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(descriptor)
            os.close(wakeup)

    def _wait(self, arrived: int) -> None:
        # Other signals, as that of a child, come by here too.
        while received := os.read(arrived, 1):
            if received[0] in (signal.SIGTERM, signal.SIGINT):
                self._end(received[0])
        os.close(arrived)

    def _end(self, number: int) -> None:
        found = self.creation.ended(self._cancel, GRACE)
        what = f"its {self._word} is cancelled" if found else f"no {self._word} of it was found"
        end_now(f"ended by {signal.Signals(number).name}; {what}. Given: {self._name}", 128 + number)


logger = logging.getLogger("qcnn")

# Machines of Vertex AI take minutes to start, and an image minutes to be pulled.
PENDING_SECONDS = 1800.0
# Between two requests for machines that there are none of, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


def launch(
    job: VertexJob,
    place: VertexLocation,
    *,
    restarts: int,
    pending_seconds: float | None = None,
    news: Callable[[JobClient, Attempt], JobReporter] | None = None,
) -> Attempt:
    """Train as a job and return the one of this training that has succeeded, at once if it already has.

    One that lives is adopted. One that was lost with its machines is followed by another, which goes on from the last
    checkpoint, up to `restarts` times in all. Where there are no machines they are waited for, `pending_seconds` long.
    A training that failed by its own fault is not tried again under the same name. A launcher that is told to end has
    its jobs cancelled. What is passed on of a job is its `news`: the lines of its processes, if not given.

    Raises:
        ConfigError: Vertex AI refuses the job, or has no machines for it; one line that says why.
        TrainingError: a process failed by its own fault; its last lines have been shown.
        RetryableError: processes were lost more often than that, somebody else cancelled or deleted the job, or the API
            does not answer any more.
    """
    label = job.labels[JOB_LABEL]
    kind = kind_of(job)
    room = CapacityTimeout(
        _pending_seconds(kind.processes(job)) if pending_seconds is None else pending_seconds, kind.word
    )
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(contextlib.closing(JobClient(place, kind)))
        termination = stack.enter_context(Termination(lambda: _cancel_all(api, job), kind.word, label).installed())

        def check(attempts: Sequence[Attempt]) -> None:
            _check_history(kind.word, attempts, restarts)

        pauses = _pauses()
        while True:
            try:
                found, how = create_or_adopt(api, job, check, termination.creation.going_on)
            except QuotaError as error:
                room.missing(error, label)
                logger.warning("%s; it is asked for again", error)
                time.sleep(next(pauses))
                continue
            logger.info("%s %s %s: %s", kind.word, found.id, how.value, job_page(place, found.id))
            if how is AttemptOutcome.SUCCEEDED:
                return found
            with contextlib.closing((news or _lines)(api, found)) as passed_on:
                ended = _followed(api, job, found, passed_on, room)
                why = fault(ended) if ended.has_ended else None
                if why is FailureType.OWN:
                    raise _own_fault(kind.word, ended, passed_on)
            if ended.has_succeeded:
                return ended
            if why is FailureType.CANCELLED:
                raise RetryableError(f"{kind.word}: somebody else cancelled it. Given: {ended.name}")
            if why is FailureType.NO_ROOM:
                room.missing(single_line(ended.message), label)
                logger.warning("there are no machines (%s); they are asked for again", single_line(ended.message))
                time.sleep(next(pauses))
            if why is FailureType.LOST:
                count = losses(list_attempts(api, job))
                _check_losses(kind.word, ended, count, restarts)
                logger.warning("%s; it is started again (%d of %d)", single_line(ended.message), count, restarts)


def _lines(api: JobClient, job: Attempt) -> JobLogReader:
    return JobLogReader(logging_endpoint_of(os.environ), api.place.project, job)


def _followed(api: JobClient, job: VertexJob, found: Attempt, news: JobReporter, room: CapacityTimeout) -> Attempt:
    """Follow a job as `follow` does; one that cannot be followed is cancelled."""
    try:
        return follow(api, job, found, news, room)
    except ConfigError:
        cancel_unwatched(api, found.name)
        raise


def _check_history(word: str, attempts: Sequence[Attempt], restarts: int) -> None:
    """Refuse to train again what has failed by its own fault, or was lost too often."""
    last = last_fault(attempts)
    if last and last[1] is FailureType.OWN:
        raise TrainingError(f"{word}: has failed before: {single_line(last[0].message)} Given: {last[0].name}")
    if last:
        _check_losses(word, last[0], losses(attempts), restarts)


def _check_losses(word: str, last: Attempt, count: int, restarts: int) -> None:
    if count > restarts:
        raise RetryableError(
            f"{word}: processes were lost, after {restarts} restarts: {single_line(last.message)} Given: {last.name}"
        )


def _own_fault(word: str, ended: Attempt, news: JobReporter) -> TrainingError:
    """Log the last lines of the process to blame, and return the error with which the training failed."""
    blamed = root_cause_replica(ended.message)
    if not blamed:
        return TrainingError(f"{word}: {ended.state}: {single_line(ended.message)} Given: {ended.name}")
    last = news.last_lines(blamed.process)
    logger.info("last lines of %s:", blamed.process)
    for line in last:
        logger.info("    %s", line)
    how = "used more memory than its machine has" if blamed.out_of_memory else f"ended with exit code {blamed.code}"
    return TrainingError(f"{blamed.process} {how}: {last_error_line(last)}. Given: {ended.name}")


def _cancel_all(api: JobClient, job: VertexJob) -> bool:
    """Have all jobs of a training cancelled; return whether there were any."""
    alive = [each for each in list_attempts(api, job) if each.is_alive]
    for each in alive:
        api.cancel(each.name)
    return bool(alive)


def _pauses() -> Iterator[float]:
    """Yield the seconds between requests for machines that there are none of."""
    for count in itertools.count():
        yield min(_FIRST_PAUSE * 2**count, _LONGEST_PAUSE) * random.uniform(0.8, 1.2)


def _pending_seconds(processes: aiplatform.CustomJobSpec) -> float:
    """Return how long a job may wait for machines: longer where it has asked for that itself."""
    scheduling = processes.scheduling
    if scheduling.strategy != aiplatform.Scheduling.Strategy.FLEX_START:
        return PENDING_SECONDS
    return scheduling.max_wait_duration.total_seconds() + PENDING_SECONDS if scheduling.max_wait_duration else math.inf
