"""What a test wants to go wrong, counted by method."""

import collections
import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from tests.vertex.server.refusal import RefusedError

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
    """The connection breaks instead of an answer."""


@dataclasses.dataclass
class _Fault:
    status: int
    message: str
    times: int
    after: int
    answered: bool


class Faults:
    """The faults that wait for calls, and how often each method has been called."""

    def __init__(self) -> None:
        self.calls: collections.Counter[str] = collections.Counter()
        self._waiting: dict[str, list[_Fault]] = collections.defaultdict(list)
        self._lock = threading.Lock()

    def fail(
        self, method: str, status: int, *, times: int = 1, after: int = 0, answered: bool = True, message: str = ""
    ) -> None:
        """Let the next calls of Service/Method fail with a status of HTTP, once `after` more have been answered.

        One that is not `answered` does its work; then the connection breaks, so that the client never learns of it.
        """
        with self._lock:
            self._waiting[method].append(_Fault(status, message or _MESSAGES[status], times, after, answered))

    def answer(self, method: str, work: Callable[[], Any]) -> Any:
        """Return the answer to a call, or what goes wrong in its place.

        Raises:
            RefusedError: the call is refused.
            LostError: the work is done, and nobody is to learn of it.
        """
        fault = self._next(method)
        if fault and fault.answered:
            raise RefusedError(fault.status, fault.message)
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
