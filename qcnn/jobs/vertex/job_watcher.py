"""Follows the custom jobs of a training to their end, and passes on what their processes print."""

import collections
import datetime
import json
import logging
import sys
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from google.protobuf import json_format

from qcnn.errors import ConfigError, QcnnError, RetryableError, as_clause
from qcnn.jobs.vertex.attempts import Attempt, attempt, list_attempts, next_action, process_name
from qcnn.jobs.vertex.client import (
    JobClient,
    ListLogEntriesRequest,
    LogEntry,
    LoggingServiceV2Client,
    VertexJob,
    auth_exceptions,
    exceptions,
    is_broken,
    is_quota,
    why,
)
from qcnn.monitoring import logs

# The states of a job whose processes have not started.
_WAITING = ("QUEUED", "PENDING")


class CapacityTimeout:
    """Waits so many seconds for quota and machines, counted from when they were first missing, anew after a job ran.

    `word` is what the job is called.
    """

    def __init__(self, seconds: float, word: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._word = word
        self._clock = clock
        self._since: float | None = None

    def see(self, job: Attempt) -> None:
        """Take note of the state of a job that has not ended.

        Raises:
            ConfigError: it has waited too long.
        """
        if job.state in _WAITING:
            self._wait(
                f"{self._word}: is {job.state} for {self._seconds:g} s; is there quota, and are there machines?", job.id
            )
        else:
            self._since = None

    def missing(self, error: QcnnError | str, given: str) -> None:
        """Take note that there is no quota, or that there are no machines.

        Raises:
            ConfigError: that has lasted too long.
        """
        self._wait(f"{self._word}: no machines for {self._seconds:g} s ({as_clause(error)})", given)

    def _wait(self, what: str, given: str) -> None:
        now = self._clock()
        self._since = now if self._since is None else self._since
        if now - self._since >= self._seconds:
            raise ConfigError(f"{what} Given: {given}")


logger = logging.getLogger("qcnn")

# What the log calls Vertex AI itself, beside the replicas of a job.
SERVICE = "service"
# So many lines of a process are kept, to be shown again when it has failed.
LAST_LINES = 20
# An entry may come into the log so much later than one with a later time.
_LATE = datetime.timedelta(seconds=120)
_SECONDS = 30.0
_PAGE = 1000


class LogPosition:
    """Tells which entries are new; they come late and out of order, so a part of the past is read again each time."""

    def __init__(self, since: datetime.datetime) -> None:
        self._since = since
        self._newest = since
        self._seen: dict[str, datetime.datetime] = {}

    @property
    def since(self) -> datetime.datetime:
        """The time from which entries have to be read again."""
        return max(self._since, self._newest - _LATE)

    def new(self, entries: Iterable[LogEntry]) -> list[LogEntry]:
        """Return those of the entries since `since` that were not returned before, in the order of their times."""
        found = {f"{entry.log_name} {entry.insert_id}": entry for entry in entries}
        fresh = [entry for key, entry in found.items() if key not in self._seen]
        self._seen |= {key: entry.timestamp for key, entry in found.items()}
        self._newest = max([self._newest, *(entry.timestamp for entry in fresh)])
        self._seen = {key: time for key, time in self._seen.items() if time >= self.since}
        return sorted(fresh, key=lambda entry: entry.timestamp)


class JobLogReader:
    """Passes on the lines of one job."""

    def __init__(self, endpoint: str, project: str, job: Attempt) -> None:
        self._client = LoggingServiceV2Client(client_options={"api_endpoint": endpoint})
        self._project = project
        self._job = job
        self._cursor = LogPosition(job.created)
        self._last = collections.defaultdict[str, collections.deque[str]](lambda: collections.deque(maxlen=LAST_LINES))
        self._is_readable = True

    def close(self) -> None:
        """Close the connection."""
        self._client.transport.close()

    def last_lines(self, process: str) -> list[str]:
        """Return the last lines of a process."""
        return list(self._last[process])

    def pass_on(self) -> bool:
        """Print what is new; return whether there was nothing, which is not known where the log cannot be read now."""
        if not self._is_readable:
            return True
        try:
            fresh = self._cursor.new(self._client.list_log_entries(self._request(), retry=None, timeout=_SECONDS))
        except (exceptions.GoogleAPIError, auth_exceptions.GoogleAuthError, OSError) as error:
            if not is_broken(error) and not is_quota(error):
                logger.warning(
                    "the lines of the workers cannot be read (%s); training goes on without them", why(error)
                )
                self._is_readable = False
            return False
        for entry in fresh:
            process = process_name(replica_of(entry))
            for line in text(entry).splitlines():
                self._last[process].append(line)
                for passed_on in logs.reformat_line(line, process):
                    sys.stdout.write(f"{passed_on}\n")
        sys.stdout.flush()
        return not fresh

    def _request(self) -> ListLogEntriesRequest:
        return ListLogEntriesRequest(
            resource_names=[f"projects/{self._project}"],
            filter=lines_filter(self._job.id, self._cursor.since),
            order_by="timestamp asc",
            page_size=_PAGE,
        )


def lines_filter(job: str, since: datetime.datetime) -> str:
    """Return what lets through the entries of the job of this id, from a time on."""
    time = since.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return f'resource.type="ml_job" AND resource.labels.job_id="{job}" AND timestamp>="{time}"'


def replica_of(entry: LogEntry) -> str:
    """Return which replica of a job has printed an entry."""
    return str(entry.resource.labels.get("task_name", SERVICE))


def text(entry: LogEntry) -> str:
    """Return what was printed: the agent on Vertex AI's machines keeps it as text, or as JSON with a `message`."""
    if "json_payload" not in entry:
        return entry.text_payload
    payload = json_format.MessageToDict(LogEntry.pb(entry).json_payload)
    said = logs.text_of(payload)
    return json.dumps(payload) if said is None else said


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


class JobReporter(Protocol):
    """What is passed on of a job while it is followed."""

    def pass_on(self) -> bool:
        """Print what is new; return whether there was nothing."""

    def last_lines(self, process: str) -> list[str]:
        """Return the last lines of a process, none where they are not kept."""

    def close(self) -> None:
        """Close the connection."""


def follow(api: JobClient, job: VertexJob, followed: Attempt, news: JobReporter, room: CapacityTimeout) -> Attempt:
    """Return a job once it has ended, or once another one of its training is to be followed in its place.

    Raises:
        ConfigError: it got no machines for as long as `room` waits for them.
        RetryableError: it was deleted, or the API does not answer any more.
    """
    state, pause = "", _FIRST_LOOK
    while True:
        found = list_attempts(api, job)
        now = next((each for each in found if each.name == followed.name), None) or _by_name(api, followed)
        if now.state != state:
            state, pause = now.state, _FIRST_LOOK
            logger.info("%s %s %s", api.kind.word, now.id, _MEANINGS.get(state, f"has ended: {state}"))
        news.pass_on()
        if now.has_ended:
            _read_to_the_end(news)
            return now
        plan = next_action(found)
        if plan.job and plan.job.name != now.name:
            return now
        room.see(now)
        time.sleep(pause)
        pause = min(pause * _FACTOR, _LONGEST_LOOK)


def _by_name(api: JobClient, followed: Attempt) -> Attempt:
    """Return a job that is missing in a list, which may be older than the job.

    Raises:
        RetryableError: it is gone.
    """
    found = api.get(followed.name)
    if found is None:
        raise RetryableError(f"{api.kind.word}: it was deleted while it was followed. Given: {followed.name}")
    return attempt(found)


def _read_to_the_end(news: JobReporter) -> None:
    """Read until nothing more comes."""
    end = time.monotonic() + _LINES_SECONDS
    was_quiet = False
    while time.monotonic() < end:
        time.sleep(_LINES_LOOK)
        is_quiet = news.pass_on()
        if is_quiet and was_quiet:
            return
        was_quiet = is_quiet
