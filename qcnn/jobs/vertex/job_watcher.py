"""Wait for the Vertex AI jobs of a training job, and forward the log lines of their processes."""

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
from qcnn.jobs.job import LAST_LINES
from qcnn.jobs.vertex.attempts import Attempt, list_attempts, next_action, process_name, to_attempt
from qcnn.jobs.vertex.client import (
    JobClient,
    ListLogEntriesRequest,
    LogEntry,
    LoggingServiceV2Client,
    VertexJob,
    auth_exceptions,
    describe_error,
    exceptions,
    is_quota,
    is_unavailable,
)
from qcnn.monitoring import logs

# States of a job whose processes have not started.
_WAITING = ("QUEUED", "PENDING")


class CapacityTimeout:
    """Timeout for missing quota or machines.

    The time counts from the first time that capacity is missing, and is reset when a job runs.
    """

    def __init__(self, seconds: float, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._title = title
        self._clock = clock
        self._since: float | None = None

    def observe(self, job: Attempt) -> None:
        """Record the state of a job that has not ended.

        Raises:
            ConfigError: If the job has waited for the whole timeout.
        """
        if job.state in _WAITING:
            message = f"{self._title}: is {job.state} for {self._seconds:g} s; check quota and available machines."
            self._check(message, job.id)
        else:
            self._since = None

    def record_missing(self, error: QcnnError | str, given: str) -> None:
        """Record that quota or machines are missing.

        Raises:
            ConfigError: If they were missing for the whole timeout.
        """
        self._check(f"{self._title}: no machines for {self._seconds:g} s ({as_clause(error)})", given)

    def _check(self, message: str, given: str) -> None:
        now = self._clock()
        self._since = now if self._since is None else self._since
        if now - self._since >= self._seconds:
            raise ConfigError(f"{message} Given: {given}")


logger = logging.getLogger("qcnn")

# Task name of log entries that come from Vertex AI itself, not from a replica.
SERVICE = "service"
# Maximum delay of a log entry behind entries with later timestamps.
_LATE = datetime.timedelta(seconds=120)
_SECONDS = 30.0
_PAGE = 1000


class LogPosition:
    """Position in a log, which selects the new entries.

    Entries arrive late and out of order, so the last two minutes are read again each time.
    """

    def __init__(self, since: datetime.datetime) -> None:
        self._since = since
        self._newest = since
        self._seen: dict[str, datetime.datetime] = {}

    @property
    def since(self) -> datetime.datetime:
        """The time from which entries must be read again."""
        return max(self._since, self._newest - _LATE)

    def new(self, entries: Iterable[LogEntry]) -> list[LogEntry]:
        """Return the entries that were not returned before, sorted by time.

        Args:
            entries: All entries of the log from `since` on.
        """
        by_key = {f"{entry.log_name} {entry.insert_id}": entry for entry in entries}
        new = [entry for key, entry in by_key.items() if key not in self._seen]
        self._seen |= {key: entry.timestamp for key, entry in by_key.items()}
        self._newest = max([self._newest, *(entry.timestamp for entry in new)])
        self._seen = {key: time for key, time in self._seen.items() if time >= self.since}
        return sorted(new, key=lambda entry: entry.timestamp)


class JobLogReader:
    """Reader that prints the log lines of one job."""

    def __init__(self, endpoint: str, project: str, job: Attempt) -> None:
        self._client = LoggingServiceV2Client(client_options={"api_endpoint": endpoint})
        self._project = project
        self._job = job
        self._position = LogPosition(job.created)
        self._last = collections.defaultdict[str, collections.deque[str]](lambda: collections.deque(maxlen=LAST_LINES))
        self._is_readable = True

    def close(self) -> None:
        """Close the connection."""
        self._client.transport.close()

    def last_lines(self, process: str) -> list[str]:
        """Return the last lines of a process."""
        return list(self._last[process])

    def print_new(self) -> bool:
        """Print the new lines of the job.

        Returns:
            True if the log was read, or is known to be unreadable, and there was no new line.
        """
        if not self._is_readable:
            return True
        try:
            new = self._position.new(self._client.list_log_entries(self._request(), retry=None, timeout=_SECONDS))
        except (exceptions.GoogleAPIError, auth_exceptions.GoogleAuthError, OSError) as error:
            if not is_unavailable(error) and not is_quota(error):
                logger.warning(
                    "cannot read the log lines of the workers (%s); training continues", describe_error(error)
                )
                self._is_readable = False
            return False
        for entry in new:
            process = process_name(replica_of(entry))
            for line in text(entry).splitlines():
                self._last[process].append(line)
                for reformatted in logs.reformat_line(line, process):
                    sys.stdout.write(f"{reformatted}\n")
        sys.stdout.flush()
        return not new

    def _request(self) -> ListLogEntriesRequest:
        return ListLogEntriesRequest(
            resource_names=[f"projects/{self._project}"],
            filter=lines_filter(self._job.id, self._position.since),
            order_by="timestamp asc",
            page_size=_PAGE,
        )


def lines_filter(job: str, since: datetime.datetime) -> str:
    """Return the log filter for the entries of a job ID from a time on."""
    time = since.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return f'resource.type="ml_job" AND resource.labels.job_id="{job}" AND timestamp>="{time}"'


def replica_of(entry: LogEntry) -> str:
    """Return the name of the replica that has printed an entry."""
    return str(entry.resource.labels.get("task_name", SERVICE))


def text(entry: LogEntry) -> str:
    """Return the printed text of an entry.

    The agent on Vertex AI VMs stores it as text, or as JSON with a `message`.
    """
    if "json_payload" not in entry:
        return entry.text_payload
    payload = json_format.MessageToDict(LogEntry.pb(entry).json_payload)
    message = logs.text_of(payload)
    return json.dumps(payload) if message is None else message


# Job states before the end ("Understand the custom training service").
_STATE_MESSAGES = {
    "QUEUED": "is queued until quota is available",
    "PENDING": "is pending: machines are being prepared",
    "RUNNING": "is running",
    "CANCELLING": "is being cancelled",
    "UPDATING": "is being updated",
    "PAUSED": "is paused",
}
# Poll intervals in seconds: first, maximum, growth factor. A project may read logs 60 times per minute
# (cloud.google.com/logging/quotas).
_FIRST_INTERVAL, _MAX_INTERVAL, _FACTOR = 0.5, 10.0, 1.5
# Maximum delay of lines after the end of a job, and the poll interval for them, in seconds.
_LINES_SECONDS, _LINES_INTERVAL = 10.0, 1.0


class JobReporter(Protocol):
    """Reporter of the progress of one job."""

    def print_new(self) -> bool:
        """Print new lines and return whether there were none."""

    def last_lines(self, process: str) -> list[str]:
        """Return the last lines of a process, or an empty list if they are not kept."""

    def close(self) -> None:
        """Close the connection."""


def wait_for_job(
    api: JobClient, job: VertexJob, adopted: Attempt, reporter: JobReporter, capacity: CapacityTimeout
) -> Attempt:
    """Wait until a job has ended, or until another job of its training job takes its place.

    Args:
        api: Client for the type of the job.
        job: Requested job, whose labels select the jobs of the training job.
        adopted: Job to wait for.
        reporter: Reporter of that job.
        capacity: Timeout for machines.

    Returns:
        The latest state of the job.

    Raises:
        ConfigError: If no machines are available within the timeout.
        RetryableError: If the job was deleted, or the API does not respond.
    """
    state, interval = "", _FIRST_INTERVAL
    while True:
        attempts = list_attempts(api, job)
        now = next((each for each in attempts if each.name == adopted.name), None) or _get_attempt(api, adopted)
        if now.state != state:
            state, interval = now.state, _FIRST_INTERVAL
            logger.info("%s %s %s", api.kind.title, now.id, _STATE_MESSAGES.get(state, f"has ended: {state}"))
        reporter.print_new()
        if now.has_ended:
            _print_last_lines(reporter)
            return now
        plan = next_action(attempts)
        if plan.job and plan.job.name != now.name:
            return now
        capacity.observe(now)
        time.sleep(interval)
        interval = min(interval * _FACTOR, _MAX_INTERVAL)


def _get_attempt(api: JobClient, adopted: Attempt) -> Attempt:
    """Get a job that is missing in the list of jobs, which may be older than the job.

    Raises:
        RetryableError: If the job no longer exists.
    """
    found = api.get(adopted.name)
    if found is None:
        raise RetryableError(f"{api.kind.title}: was deleted while it was running. Given: {adopted.name}")
    return to_attempt(found)


def _print_last_lines(reporter: JobReporter) -> None:
    """Print lines until two reads in a row return none, or the timeout has passed."""
    end = time.monotonic() + _LINES_SECONDS
    was_quiet = False
    while time.monotonic() < end:
        time.sleep(_LINES_INTERVAL)
        is_quiet = reporter.print_new()
        if is_quiet and was_quiet:
            return
        was_quiet = is_quiet
