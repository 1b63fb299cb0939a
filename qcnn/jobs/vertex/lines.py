"""Pass on what the processes of a job print, from Cloud Logging: each line once, with the name of its process.

Vertex AI writes them as entries of the monitored resource ml_job, whose labels are the job's id (job_id) and the
replica (task_name, as workerpool0-0; "service" for what Vertex AI itself says).
"""

import collections
import datetime
import json
import logging
import sys
from collections.abc import Iterable

from google.protobuf import json_format

from qcnn.jobs.vertex.attempts import Attempt, process_name
from qcnn.jobs.vertex.client.library import (
    ListLogEntriesRequest,
    LogEntry,
    LoggingServiceV2Client,
    auth_exceptions,
    exceptions,
)
from qcnn.jobs.vertex.client.refusals import is_broken, is_quota, why
from qcnn.trainer.monitoring import log_lines

logger = logging.getLogger("qcnn")

# What the log calls Vertex AI itself, beside the replicas of a job.
SERVICE = "service"
# So many lines of a process are kept, to be shown again when it has failed.
LAST_LINES = 20
# An entry may come into the log so much later than one with a later time.
_LATE = datetime.timedelta(seconds=120)
_SECONDS = 30.0
_PAGE = 1000


class Cursor:
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


class Lines:
    """Passes on the lines of one job."""

    def __init__(self, endpoint: str, project: str, job: Attempt) -> None:
        self._client = LoggingServiceV2Client(client_options={"api_endpoint": endpoint})
        self._project = project
        self._job = job
        self._cursor = Cursor(job.created)
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
                for passed_on in log_lines.passed_on(line, process):
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
    said = log_lines.text_of(payload)
    return json.dumps(payload) if said is None else said
