"""Cloud Logging: entries, and lists of them."""

import datetime
import threading
from collections.abc import Callable, Mapping
from typing import Any

from google.cloud.logging_v2.types import ListLogEntriesRequest, ListLogEntriesResponse, LogEntry

from tests.vertex.server import filters
from tests.vertex.server.connection.transport import Handler
from tests.vertex.server.refusal import RefusedError, require
from tests.vertex.server.state import as_json, copied, cut_page

_FIELDS = (
    "resource",
    "labels",
    "timestamp",
    "insert_id",
    "insertId",
    "severity",
    "log_name",
    "logName",
    "text_payload",
    "textPayload",
    "json_payload",
    "jsonPayload",
)
# The API's JSON and its filters write fields like this.
_SPELLINGS = {
    "insertId": "insert_id",
    "logName": "log_name",
    "textPayload": "text_payload",
    "jsonPayload": "json_payload",
}
_DEFAULT_PAGE, _LARGEST_PAGE = 50, 1000


class Logs:
    """The log entries of a project; those that are held are there, and not found yet, as fresh ones of the service."""

    def __init__(self, project: str) -> None:
        self._project = project
        self._entries: list[LogEntry] = []
        self._fresh: list[LogEntry] | None = None
        self._written = threading.Condition()

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the service."""
        return {"LoggingServiceV2/ListLogEntries": self._list}

    def hold(self) -> None:
        """Let entries that are written from now on not be found."""
        with self._written:
            self._fresh = self._fresh or []

    def release(self) -> None:
        """Let all entries be found."""
        with self._written:
            self._entries += self._fresh or []
            self._fresh = None

    def write(self, job_id: str, replica: str, text: str, severity: str = "INFO") -> None:
        """Keep a line of a replica of a job, or of the service, as Vertex AI writes them."""
        with self._written:
            entry = LogEntry(
                log_name=f"projects/{self._project}/logs/{replica}",
                resource={
                    "type": "ml_job",
                    "labels": {"job_id": job_id, "task_name": replica, "project_id": self._project},
                },
                labels={
                    "ml.googleapis.com/job_id/log_area": "root",
                    "ml.googleapis.com/trial_id": "",
                    "ml.googleapis.com/trial_type": "",
                },
                timestamp=datetime.datetime.now(datetime.timezone.utc),
                severity=severity,
                insert_id=f"{len(self._entries) + len(self._fresh or ()):016x}",
                **self._payload(replica, text, severity),
            )
            (self._entries if self._fresh is None else self._fresh).append(entry)
            self._written.notify_all()

    def until(self, happened: Callable[[], bool]) -> None:
        """Wait until something has been written."""
        with self._written:
            self._written.wait_for(happened)

    def lines(self, job_id: str, replica: str) -> list[str]:
        """Return what a replica of a job has written, found or not."""
        with self._written:
            return [
                entry.json_payload.get("message", "") if "json_payload" in entry else entry.text_payload
                for entry in (*self._entries, *(self._fresh or ()))
                if dict(entry.resource.labels)["job_id"] == job_id
                and dict(entry.resource.labels)["task_name"] == replica
            ]

    def tail(self) -> list[str]:
        """Return the last lines of all replicas, for a test that fails."""
        with self._written:
            return [str(entry.json_payload.get("message")) for entry in self._entries[-50:] if "json_payload" in entry]

    def _payload(self, replica: str, text: str, severity: str) -> dict[str, Any]:
        """Return what was written: a structure for a replica's line, a text for the service's."""
        if replica == "service":
            return {"text_payload": text}
        return {"json_payload": {"message": text, "levelname": severity, "attrs": {"tag": replica}}}

    def _list(self, request: ListLogEntriesRequest) -> ListLogEntriesResponse:
        require("resource_names", request.resource_names)
        if set(request.resource_names) != {f"projects/{self._project}"}:
            raise RefusedError(403, "The caller does not have permission")
        if request.order_by not in ("", "timestamp asc", "timestamp desc"):
            raise RefusedError(400, f"order_by must be 'timestamp asc' or 'timestamp desc'. Given: {request.order_by}")
        if request.page_size > _LARGEST_PAGE:
            raise RefusedError(400, f"page_size must be at most {_LARGEST_PAGE}. Given: {request.page_size}")
        passes = filters.parse(request.filter, _FIELDS)
        with self._written:
            found = [copied(entry) for entry in self._entries if passes(_seen(as_json(entry)))]
        # Equal times are ordered by their ids.
        found.sort(key=lambda entry: (entry.timestamp, entry.insert_id), reverse=request.order_by == "timestamp desc")
        page, token = cut_page(found, request.page_size or _DEFAULT_PAGE, request.page_token)
        return ListLogEntriesResponse(entries=page, next_page_token=token)


def _seen(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry, **{spelled: entry[name] for spelled, name in _SPELLINGS.items() if name in entry}}
