"""What a launcher does that is told to end: one request, on a connection that is already open."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

from qcnn.jobs.creation import Creation
from qcnn.jobs.kubernetes.api import Api
from qcnn.jobs.tfjob.kind import TFJOBS
from qcnn.trainer.startup import end_now

# Kubeflow kills a step this long after it has told the step to end, in seconds.
GRACE = 0.7


class Termination:
    """Deletes a TFJob with everything that it owns when SIGTERM or Ctrl-C comes, and ends this process.

    Where only the pod of this process `is_going`, the run goes on: the TFJob stays for the next launcher, until its
    Lease is stale. Nothing but the Lease may use the connections of `api`, so that one is free at any moment.
    """

    def __init__(self, api: Api, name: str, is_going: Callable[[], bool]) -> None:
        self._api = api
        self._name = name
        self._is_going = is_going
        self.creation = Creation()

    @contextlib.contextmanager
    def installed(self) -> Iterator["Termination"]:
        """Handle the signals within this block; outside of the main thread, which alone can, do nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        previous = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _end(self, number: int, frame: object) -> None:
        received = signal.Signals(number).name
        if self._is_going():
            end_now(f"ended by {received}, as its pod is; its TFJob stays. Given: {self._name}", 128 + number)
        deleted = self.creation.ended(lambda: self._api.delete(TFJOBS, self._name), GRACE)
        what = "its TFJob is deleted" if deleted else "no TFJob of it was found"
        end_now(f"ended by {received}; {what}. Given: {self._name}", 128 + number)
