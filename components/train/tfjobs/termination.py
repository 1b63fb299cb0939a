"""The end of a launcher that is told to end: two requests at most, on a connection that is already open."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator, Mapping

from components.train.tfjobs.api import TFJOBS, Api
from components.train.tfjobs.workflows import KIND, WORKFLOWS, goes_on
from trainer.errors import QcnnError
from trainer.startup import end_now

# Kubeflow kills a step this long after it told it to end, in seconds.
GRACE = 0.7


class Termination:
    """Deletes a TFJob, and with it all it owns, when SIGTERM or Ctrl-C comes, and ends this process.

    Where this process belongs to a Workflow (an ownerReference) that goes on, its pod was evicted: the TFJob stays for
    the launcher that comes next, until its Lease is stale. It stays, too, where that cannot be seen.
    `api` is for that alone (and the Lease): its connection must be free at any moment.
    """

    def __init__(self, api: Api, name: str, owner: Mapping[str, str] | None = None) -> None:
        self._api = api
        self._name = name
        self._owner = owner
        self._creating = False

    @contextlib.contextmanager
    def installed(self) -> Iterator["Termination"]:
        """Take the signals for this block; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        previous = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def creating(self) -> Iterator[None]:
        """Say that a TFJob may come into being in this block which cannot be seen yet."""
        self._creating = True
        try:
            yield
        finally:
            self._creating = False

    def _end(self, number: int, frame: object) -> None:
        received = signal.Signals(number).name
        if self._is_wanted():
            end_now(f"ended by {received}; its run goes on, and its TFJob stays. Given: {self._name}", 128 + number)
        end, deleted = time.monotonic() + GRACE, False
        with contextlib.suppress(QcnnError):
            deleted = self._api.delete(TFJOBS, self._name)
            while self._creating and not deleted and time.monotonic() < end:
                deleted = self._api.delete(TFJOBS, self._name)
        what = "its TFJob is deleted" if deleted else "no TFJob of it was found"
        end_now(f"ended by {received}; {what}. Given: {self._name}", 128 + number)

    def _is_wanted(self) -> bool:
        """Whether the run goes on that this launcher is a step of."""
        if not self._owner or self._owner["kind"] != KIND:
            return False
        try:
            found = self._api.get(WORKFLOWS, self._owner["name"])
        except QcnnError:
            # What was to be kept cannot be brought back; what was to be deleted ends by its Lease.
            return True
        return goes_on(found)
