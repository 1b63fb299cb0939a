"""Cloud Logging: storage and listing of log entries."""

import datetime
import threading
from collections.abc import Callable, Mapping
from typing import Any

from google.cloud.logging_v2.types import ListLogEntriesRequest, ListLogEntriesResponse, LogEntry

from tests.vertex.fake_service import filters
from tests.vertex.fake_service.connection.transport import Handler
from tests.vertex.fake_service.errors import StatusError, require
from tests.vertex.fake_service.state import as_json, copied, cut_page

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
# Field names in JSON and filters, with the names of the message fields.
_SPELLINGS = {
    "insertId": "insert_id",
    "logName": "log_name",
    "textPayload": "text_payload",
    "jsonPayload": "json_payload",
}
_DEFAULT_PAGE, _LARGEST_PAGE = 50, 1000


class Logs:
    """Log entries of a project. Held entries are stored but not listed, as new entries of the real service."""

    def __init__(self, project: str) -> None:
        self._project = project
        self._entries: list[LogEntry] = []
        self._fresh: list[LogEntry] | None = None
        self._written = threading.Condition()

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the service."""
        return {"LoggingServiceV2/ListLogEntries": self._list}

    def hold(self) -> None:
        """Hide entries that are written from now on."""
        with self._written:
            self._fresh = self._fresh or []

    def release(self) -> None:
        """List all entries again, including hidden ones."""
        with self._written:
            self._entries += self._fresh or []
            self._fresh = None

    def write(self, job_id: str, replica: str, text: str, severity: str = "INFO") -> None:
        """Add a line of a replica, or of the service, in the format of Vertex AI."""
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
                timestamp=datetime.datetime.now(datetime.UTC),
                severity=severity,
                insert_id=f"{len(self._entries) + len(self._fresh or ()):016x}",
                **self._payload(replica, text, severity),
            )
            (self._entries if self._fresh is None else self._fresh).append(entry)
            self._written.notify_all()

    def until(self, happened: Callable[[], bool]) -> None:
        """Wait until a condition on the entries is true."""
        with self._written:
            self._written.wait_for(happened)

    def lines(self, job_id: str, replica: str) -> list[str]:
        """Return the lines of a replica, including hidden ones."""
        with self._written:
            return [
                _text(entry)
                for entry in (*self._entries, *(self._fresh or ()))
                if dict(entry.resource.labels)["job_id"] == job_id
                and dict(entry.resource.labels)["task_name"] == replica
            ]

    def tail(self, job_id: str) -> list[str]:
        """Return the last lines of a job, with the name of the replica, for the message of a failed test."""
        with self._written:
            entries = [entry for entry in self._entries if entry.resource.labels["job_id"] == job_id]
        return [f"[{entry.resource.labels['task_name']}] {_text(entry)}" for entry in entries[-50:]]

    def _payload(self, replica: str, text: str, severity: str) -> dict[str, Any]:
        """Return the payload of an entry: JSON for a line of a replica, text for one of the service."""
        if replica == "service":
            return {"text_payload": text}
        return {"json_payload": {"message": text, "levelname": severity, "attrs": {"tag": replica}}}

    def _list(self, request: ListLogEntriesRequest) -> ListLogEntriesResponse:
        require("resource_names", request.resource_names)
        if set(request.resource_names) != {f"projects/{self._project}"}:
            raise StatusError(403, "The caller does not have permission")
        if request.order_by not in ("", "timestamp asc", "timestamp desc"):
            raise StatusError(400, f"order_by must be 'timestamp asc' or 'timestamp desc'. Given: {request.order_by}")
        if request.page_size > _LARGEST_PAGE:
            raise StatusError(400, f"page_size must be at most {_LARGEST_PAGE}. Given: {request.page_size}")
        passes = filters.parse(request.filter, _FIELDS)
        with self._written:
            found = [copied(entry) for entry in self._entries if passes(_with_json_names(as_json(entry)))]
        # Entries with equal times are sorted by ID.
        found.sort(key=lambda entry: (entry.timestamp, entry.insert_id), reverse=request.order_by == "timestamp desc")
        page, token = cut_page(found, request.page_size or _DEFAULT_PAGE, request.page_token)
        return ListLogEntriesResponse(entries=page, next_page_token=token)


def _text(entry: LogEntry) -> str:
    return str(entry.json_payload.get("message", "")) if "json_payload" in entry else entry.text_payload


def _with_json_names(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry, **{spelled: entry[name] for spelled, name in _SPELLINGS.items() if name in entry}}
