"""Logs of the processes of a job, each line once."""

import collections
import sys
import threading
from collections.abc import Iterator

from qcnn.errors import QcnnError
from qcnn.jobs.job import LAST_LINES
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.pods import PodProcess
from qcnn.monitoring import logs

# Delay before a log stream is reopened while its process runs, in seconds.
_PAUSE = 1.0
_SECOND_LENGTH = len("2026-01-31T12:00:00")
_printing = threading.Lock()


class LogCursor:
    """Reader of the log of a container that returns each line once over several requests."""

    def __init__(self, pod: str, container: str) -> None:
        self._pod, self._container = pod, container
        # The kubelet filters by whole seconds. `_sent` are the lines of the last second that were already returned.
        self._since, self._sent = "", set[tuple[str, str]]()

    def new(self, api: NamespaceClient, *, follow: bool) -> Iterator[tuple[str, str]]:
        """Yield the time and text of each line that was not yielded before."""
        for line in api.log(self._pod, self._container, self._since, follow=follow):
            if line[0][:_SECOND_LENGTH] > self._since[:_SECOND_LENGTH]:
                self._since, self._sent = line[0], set()
            if line not in self._sent:
                yield line
            self._sent.add(line)


class PodLog:
    """Log of one process, which a thread prints with `name` before each line.

    Without `name`, the lines are printed unchanged. Call `ended` when the process has exited.
    """

    def __init__(self, api: NamespaceClient, process: PodProcess, name: str) -> None:
        self.last_lines = collections.deque[str](maxlen=LAST_LINES)
        self._api = api
        self._process = process
        self._name = name
        self._ended = threading.Event()
        self._lines = LogCursor(process.pod, process.container)
        self._thread = threading.Thread(target=self._follow, name=f"log of {process.pod}", daemon=True)
        self._thread.start()

    def ended(self) -> None:
        """Stop after the remaining lines."""
        self._ended.set()

    def wait(self, seconds: float) -> None:
        """Wait until all lines are printed, up to a time limit."""
        self._thread.join(seconds)

    def _follow(self) -> None:
        while not self._ended.is_set():
            self._print_new_lines(follow=True)
            self._ended.wait(_PAUSE)
        # Lines between the end of the connection and the end of the process.
        self._print_new_lines(follow=False)

    def _print_new_lines(self, *, follow: bool) -> None:
        try:
            for _, text in self._lines.new(self._api, follow=follow):
                self._print(text)
        except QcnnError:
            # The pod or its node no longer exists. `JobWatcher` determines the state of the job from other sources.
            return

    def _print(self, text: str) -> None:
        self.last_lines.append(text)
        with _printing:
            for line in logs.reformat_line(text, self._name):
                sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
