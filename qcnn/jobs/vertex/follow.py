"""Follow a job to its end: say in which state it is, and pass on what is new of it."""

import logging
import time
from typing import Protocol

from qcnn.jobs.vertex.attempts import Attempt, attempt
from qcnn.jobs.vertex.client.api import Api
from qcnn.jobs.vertex.client.kind import VertexJob
from qcnn.jobs.vertex.create_or_adopt import look_at
from qcnn.jobs.vertex.room import Room
from qcnn.jobs.vertex.verdict import next_step
from qcnn.trainer.errors import RetryableError

logger = logging.getLogger("qcnn")

# What the states mean that a job is in before its end ("Understand the custom training service").
_MEANINGS = {
    "QUEUED": "is queued, which lasts while there is no quota left for it",
    "PENDING": "is pending: machines are being prepared",
    "RUNNING": "is running",
    "CANCELLING": "is being cancelled",
    "UPDATING": "is being updated",
    "PAUSED": "is paused",
}
# In seconds. A project may read logs 60 times a minute (cloud.google.com/logging/quotas), so a job that goes on for
# long is looked at less often.
_FIRST_LOOK, _LONGEST_LOOK, _FACTOR = 0.5, 10.0, 1.5
# Lines may come so long after a job has ended; it is looked for them this often.
_LINES_SECONDS, _LINES_LOOK = 10.0, 1.0


class News(Protocol):
    """What is passed on of a job while it is followed."""

    def pass_on(self) -> bool:
        """Print what is new; return whether there was nothing."""

    def last_lines(self, process: str) -> list[str]:
        """Return the last lines of a process, none where they are not kept."""

    def close(self) -> None:
        """Close the connection."""


def follow(api: Api, job: VertexJob, followed: Attempt, news: News, room: Room) -> Attempt:
    """Return a job once it has ended, or once another one of its training is to be followed in its place.

    Raises:
        ConfigError: it got no machines for as long as `room` waits for them.
        RetryableError: it was deleted, or the API does not answer any more.
    """
    state, pause = "", _FIRST_LOOK
    while True:
        found = look_at(api, job)
        now = next((each for each in found if each.name == followed.name), None) or _by_name(api, followed)
        if now.state != state:
            state, pause = now.state, _FIRST_LOOK
            logger.info("%s %s %s", api.kind.word, now.id, _MEANINGS.get(state, f"has ended: {state}"))
        news.pass_on()
        if now.has_ended:
            _read_to_the_end(news)
            return now
        plan = next_step(found)
        if plan.job and plan.job.name != now.name:
            return now
        room.see(now)
        time.sleep(pause)
        pause = min(pause * _FACTOR, _LONGEST_LOOK)


def _by_name(api: Api, followed: Attempt) -> Attempt:
    """Return a job that is missing in a list, which may be older than the job.

    Raises:
        RetryableError: it is gone.
    """
    found = api.get(followed.name)
    if found is None:
        raise RetryableError(f"{api.kind.word}: it was deleted while it was followed. Given: {followed.name}")
    return attempt(found)


def _read_to_the_end(news: News) -> None:
    """Read until nothing more comes."""
    end = time.monotonic() + _LINES_SECONDS
    was_quiet = False
    while time.monotonic() < end:
        time.sleep(_LINES_LOOK)
        is_quiet = news.pass_on()
        if is_quiet and was_quiet:
            return
        was_quiet = is_quiet
