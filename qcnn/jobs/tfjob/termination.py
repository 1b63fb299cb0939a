"""What a launcher does that is told to end: it deletes its TFJob, unless only its own pod is taken away."""

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from qcnn.jobs.kubernetes.api import PODS, Api
from qcnn.jobs.pending_creation import Creation
from qcnn.jobs.tfjob.manifest import TFJOBS
from qcnn.startup import end_now

logger = logging.getLogger("qcnn")


# A pod is marked for deletion just before its processes are told to end: so long the mark may take to be seen here on a
# busy machine, in seconds.
_SEEN_SECONDS = 0.1


class OwnPod:
    """Watches a pod in a thread until this process ends, so that `is_going` is known without a request."""

    def __init__(self, api: Api, name: str) -> None:
        self._api = api
        self._name = name
        self._is_going = threading.Event()
        threading.Thread(target=self._run, name=f"watch of {name}", daemon=True).start()

    @property
    def is_going(self) -> bool:
        """Whether the pod is being taken away; a mark that comes within a moment counts too."""
        return self._is_going.wait(_SEEN_SECONDS)

    def _run(self) -> None:
        try:
            for pods in self._api.watch(PODS, fieldSelector=f"metadata.name={self._name}"):
                if any(map(is_going, pods.values())):
                    self._is_going.set()
                    return
        except Exception as error:  # Whatever it is: the training goes on without this knowledge.
            logger.warning("an eviction of this pod would not be seen: %s", error)


def is_going(pod: Mapping[str, Any]) -> bool:
    """Whether a pod, as the API returns it, is being deleted, or ended by its node (drained, preempted, out of memory).

    Where a backend terminates a run, its pods stay: Argo only sends a signal to their processes.
    """
    conditions = pod["status"].get("conditions", ())
    disrupted = any(found["type"] == "DisruptionTarget" and found["status"] == "True" for found in conditions)
    return "deletionTimestamp" in pod["metadata"] or disrupted


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
