"""The end of a launcher that is told to end: one request, on a connection that is already open."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator

from launchers.kubernetes.api import Api
from launchers.tfjob.kind import TFJOBS
from trainer.errors import QcnnError
from trainer.startup import end_now

# Kubeflow kills a step this long after it told it to end, in seconds.
GRACE = 0.7


class Termination:
    """Deletes a TFJob, and with it all it owns, when SIGTERM or Ctrl-C comes, and ends this process.

    Where only this process' pod `is_going`, the run goes on: the TFJob stays, for the launcher that comes next, until
    its Lease is stale. `api` is for the deletion alone (and the Lease): its connection must be free at any moment.
    """

    def __init__(self, api: Api, name: str, is_going: Callable[[], bool]) -> None:
        self._api = api
        self._name = name
        self._is_going = is_going
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
        if self._is_going():
            end_now(f"ended by {received}, as its pod is; its TFJob stays. Given: {self._name}", 128 + number)
        end, deleted = time.monotonic() + GRACE, False
        with contextlib.suppress(QcnnError):
            deleted = self._api.delete(TFJOBS, self._name)
            while self._creating and not deleted and time.monotonic() < end:
                deleted = self._api.delete(TFJOBS, self._name)
        what = "its TFJob is deleted" if deleted else "no TFJob of it was found"
        end_now(f"ended by {received}; {what}. Given: {self._name}", 128 + number)
