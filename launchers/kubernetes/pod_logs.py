"""The output of a job's processes on a cluster, line by line with their names, each line once."""

import collections
import sys
import threading

from launchers.kubernetes.api import Api
from launchers.kubernetes.pod_template import CONTAINER
from launchers.kubernetes.pods import Process
from trainer.errors import QcnnError

# Lines of a process that are kept to be shown once more when it has failed.
LAST_LINES = 20
# A log that broke off while its process goes on is taken up again after this, in seconds.
_PAUSE = 1.0
_TO_THE_SECOND = len("2026-01-31T12:00:00")
_printing = threading.Lock()


class PodLog:
    """The output of one process, passed on while it comes, a prefix before each line.

    `ended` is to be called when the process has ended.
    """

    def __init__(self, api: Api, process: Process, prefix: str) -> None:
        self.last_lines = collections.deque[str](maxlen=LAST_LINES)
        self._api = api
        self._process = process
        self._prefix = prefix
        self._ended = threading.Event()
        # The kubelet counts in whole seconds from when on to send: what of the last one it has already sent.
        self._since, self._sent = "", set[tuple[str, str]]()
        self._thread = threading.Thread(target=self._follow, name=f"log of {process.pod}", daemon=True)
        self._thread.start()

    def ended(self) -> None:
        """Read what is left, and no more."""
        self._ended.set()

    def wait(self, seconds: float) -> None:
        """Wait until all has been passed on."""
        self._thread.join(seconds)

    def _follow(self) -> None:
        while not self._ended.is_set():
            self._pass_on(follow=True)
            self._ended.wait(_PAUSE)
        # What came between the end of the connection and that of the process.
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
            # The pod is gone, or its node: no reason to end a training, whose state is known from elsewhere.
            return

    def _print(self, text: str) -> None:
        self.last_lines.append(text)
        with _printing:
            sys.stdout.write(f"{self._prefix}{text}\n")
            sys.stdout.flush()
