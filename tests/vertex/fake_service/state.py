"""Storage of the server: messages by resource name."""

import datetime
import itertools
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from google.protobuf import json_format

from qcnn.jobs.vertex.location import creation_time
from tests.vertex.fake_service import filters
from tests.vertex.fake_service.errors import StatusError

# Vertex AI returns resource names with the project number, also for requests with the project ID.
PROJECT_NUMBER = "123456789012"
_DEFAULT_PAGE = 100
# Timeout of waits in tests.
_MAX_SECONDS = 300
T = TypeVar("T")

_ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


class State:
    """Messages by name. A thread that changes a message must hold `changed` and notify it."""

    def __init__(self, project: str, location: str) -> None:
        self.project, self.location = project, location
        self.changed = threading.Condition(threading.RLock())
        self._messages: dict[str, Any] = {}
        self._numbers = itertools.count(4_000_000_000_000_000_001)

    def parent(self, given: str) -> str:
        """Return a resource name with the project number.

        Raises:
            StatusError: If the name is malformed, or its project or location is another one.
        """
        parts = given.split("/")
        if len(parts) < 4 or parts[0] != "projects" or parts[2] != "locations":
            raise StatusError(400, f"Invalid resource name: {given}")
        if parts[1] not in (self.project, PROJECT_NUMBER):
            raise StatusError(
                403, f"Permission denied on resource '//aiplatform.googleapis.com/{given}' (or it may not exist)."
            )
        if parts[3] != self.location:
            raise StatusError(400, f"Location ID in resource name must be {self.location!r}. Given: {parts[3]!r}")
        return "/".join(["projects", PROJECT_NUMBER, *parts[2:]])

    def new_id(self) -> str:
        """Return an unused ID."""
        return str(next(self._numbers))

    def add(self, name: str, message: Any) -> None:
        """Store a message under a name.

        Raises:
            StatusError: If the name exists.
        """
        with self.changed:
            if name in self._messages:
                raise StatusError(409, f"Resource already exists: {name}")
            self._messages[name] = message
            self.changed.notify_all()

    def get(self, kind: type[T], given: str) -> T:
        """Return the stored message of a name, not a copy.

        Raises:
            StatusError: If it does not exist.
        """
        name = self.parent(given)
        with self.changed:
            found = self._messages.get(name)
            if not isinstance(found, kind):
                raise StatusError(404, f"The {kind.__name__} does not exist. Name: {name}")
            return found

    def copy(self, kind: type[T], given: str) -> T:
        """Return a copy of the message of a name."""
        with self.changed:
            return copied(self.get(kind, given))

    def remove(self, given: str) -> None:
        """Delete the message of a name."""
        with self.changed:
            self._messages.pop(self.parent(given), None)
            self.changed.notify_all()

    def all(self, kind: type[T]) -> list[T]:
        """Return copies of all messages of a class, the oldest first."""
        with self.changed:
            return [copied(found) for found in self._messages.values() if isinstance(found, kind)]

    def page(
        self,
        kind: type[T],
        request: Any,
        fields: tuple[str, ...],
        functions: Mapping[str, filters.Function] | None = None,
    ) -> tuple[list[T], str]:
        """Return the messages that match a list request, the newest first, and the token of the next page."""
        parent = f"{self.parent(request.parent)}/"
        passes = filters.parse(request.filter, fields, functions)
        of_kind: list[Any] = self.all(kind)
        found = [each for each in of_kind if each.name.startswith(parent) and passes(as_json(each))]
        ascending = getattr(request, "order_by", "") in ("create_time", "create_time asc")
        newest = sorted(found, key=creation_time, reverse=not ascending)
        return cut_page(newest, request.page_size, request.page_token)

    def move(self, job: Any, state: Any, code: int = 0, message: str = "") -> None:
        """Change the state of a job of any type, with its times and its error.

        A job in state CANCELLING changes only to a final state.
        """
        name = _state_name(state)
        with self.changed:
            if _state_name(job.state) == "CANCELLING" and name not in _ENDED:
                return
            now = datetime.datetime.now(datetime.UTC)
            job.state, job.update_time = state, now
            if name == "RUNNING":
                job.start_time = now
            if name in _ENDED:
                job.end_time = now
            if code:
                job.error.code, job.error.message = code, message
            self.changed.notify_all()

    def until(self, happened: Callable[[], T | None]) -> T:
        """Wait until a function returns a result, calling it whenever a message changes.

        Raises:
            TimeoutError: If there is no result after 300 s.
        """
        with self.changed:
            found = self.changed.wait_for(happened, _MAX_SECONDS)
        if not found:
            raise TimeoutError(f"the awaited state was not reached within {_MAX_SECONDS} s")
        return found


def _state_name(state: Any) -> str:
    """Return the name of a job state without the prefix of its enum."""
    return str(state.name).partition("_STATE_")[2]


def cut_page(found: list[T], size: int, token: str) -> tuple[list[T], str]:
    """Return a page of a list, and the token of the next page.

    Raises:
        StatusError: If the page size or the token is invalid.
    """
    if size < 0:
        raise StatusError(400, f"Page size must not be negative. Given: {size}")
    if token and not token.isdigit():
        raise StatusError(400, f"Invalid page token. Given: {token}")
    start, count = int(token or 0), size or _DEFAULT_PAGE
    return found[start : start + count], str(start + count) if start + count < len(found) else ""


def copied(message: T) -> T:
    """Return a copy of a message."""
    kind: Any = type(message)
    return kind.deserialize(kind.serialize(message)) if hasattr(kind, "serialize") else _plain_copy(message)


def as_json(message: Any) -> dict[str, Any]:
    """Return a message as JSON for filters, with proto field names and enum names."""
    plain = type(message).pb(message) if hasattr(type(message), "pb") else message
    return json_format.MessageToDict(plain, preserving_proto_field_name=True)  # type: ignore[no-any-return]


def _plain_copy(message: T) -> T:
    kind: Any = type(message)
    made = kind()
    made.CopyFrom(message)
    return made  # type: ignore[no-any-return]
