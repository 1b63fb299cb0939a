"""Pass on the output of a job's processes on a cluster: each line once, with the name of its process."""

import collections
import sys
import threading

from qcnn.jobs.kubernetes.api import Api
from qcnn.jobs.kubernetes.pod_template import CONTAINER
from qcnn.jobs.kubernetes.pods import Process
from qcnn.trainer.errors import QcnnError
from qcnn.trainer.monitoring import log_lines

# So many lines of a process are kept, to be shown again when it has failed.
LAST_LINES = 20
# A log that breaks off while its process runs is opened again after this, in seconds.
_PAUSE = 1.0
_TO_THE_SECOND = len("2026-01-31T12:00:00")
_printing = threading.Lock()


class PodLog:
    """Passes on the output of one process as it comes, with a name before each line where it has one.

    Call `ended` when the process has ended.
    """

    def __init__(self, api: Api, process: Process, name: str) -> None:
        self.last_lines = collections.deque[str](maxlen=LAST_LINES)
        self._api = api
        self._process = process
        self._name = name
        self._ended = threading.Event()
        # The kubelet sends lines from a whole second on: those of the last second that it has already sent.
        self._since, self._sent = "", set[tuple[str, str]]()
        self._thread = threading.Thread(target=self._follow, name=f"log of {process.pod}", daemon=True)
        self._thread.start()

    def ended(self) -> None:
        """Read only what is left."""
        self._ended.set()

    def wait(self, seconds: float) -> None:
        """Wait until all has been passed on."""
        self._thread.join(seconds)

    def _follow(self) -> None:
        while not self._ended.is_set():
            self._pass_on(follow=True)
            self._ended.wait(_PAUSE)
        # What was printed after the connection ended and before the process did.
        self._pass_on(follow=False)

    def _pass_on(self, *, follow: bool) -> None:
        try:
            for time, text in self._api.log(self._process.pod, CONTAINER, self._since, follow=follow):
                if time[:_TO_THE_SECOND] > self._since[:_TO_THE_SECOND]:
                    self._since, self._sent = time, set()
                if (time, text) not in self._sent:
                    self._print(text)
                self._sent.add((time, text))
        except QcnnError:
            # The pod or its node is gone. The training's state is known from elsewhere, so this is no error.
            return

    def _print(self, text: str) -> None:
        self.last_lines.append(text)
        with _printing:
            for line in log_lines.passed_on(text, self._name):
                sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
