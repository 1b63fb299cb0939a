"""Faults that a test injects into calls, and the number of calls by method."""

import collections
import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from tests.vertex.fake_service.errors import StatusError

_MESSAGES = {
    400: "Request contains an invalid argument.",
    403: "Permission 'aiplatform.customJobs.create' denied on resource (or it may not exist).",
    404: "Requested entity was not found.",
    409: "Requested entity already exists.",
    429: "The following quota metrics exceed quota limits: aiplatform.googleapis.com/custom_model_training_cpus",
    500: "Internal error encountered.",
    503: "The service is currently unavailable.",
    504: "Deadline exceeded.",
}


class LostError(Exception):
    """The connection is closed instead of a response."""


@dataclasses.dataclass
class _Fault:
    status: int
    message: str
    times: int
    after: int
    answered: bool


class Faults:
    """Pending faults, and the number of calls of each method."""

    def __init__(self) -> None:
        self.calls: collections.Counter[str] = collections.Counter()
        self._waiting: dict[str, list[_Fault]] = collections.defaultdict(list)
        self._lock = threading.Lock()

    def fail(
        self, method: str, status: int, *, times: int = 1, after: int = 0, answered: bool = True, message: str = ""
    ) -> None:
        """Make the next calls of a method fail.

        Args:
            method: Service/Method.
            status: HTTP status of the error.
            times: Number of calls that fail.
            after: Number of calls that succeed first.
            answered: Whether the client receives the error. Otherwise the call is executed, and then the connection is
                closed without a response.
            message: Message of the error, by default a typical one of the status.
        """
        with self._lock:
            self._waiting[method].append(_Fault(status, message or _MESSAGES[status], times, after, answered))

    def answer(self, method: str, work: Callable[[], Any]) -> Any:
        """Return the response to a call, or raise its fault.

        Raises:
            StatusError: If the call fails with a status.
            LostError: If the call was executed and its response must be dropped.
        """
        fault = self._next(method)
        if fault and fault.answered:
            raise StatusError(fault.status, fault.message)
        answer = work()
        if fault:
            raise LostError
        return answer

    def _next(self, method: str) -> _Fault | None:
        with self._lock:
            self.calls[method] += 1
            for fault in self._waiting[method]:
                if fault.after:
                    fault.after -= 1
                    return None
                fault.times -= 1
                if not fault.times:
                    self._waiting[method].remove(fault)
                return fault
        return None
