"""End of a launcher on SIGTERM, which first ends its job."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

from qcnn.errors import QcnnError
from qcnn.process.standard_streams import exit_with_message

# Seconds after which a launcher exits whose job could not be ended.
_MAX_SECONDS = 60.0


class Termination:
    """Handler for SIGTERM and SIGINT that ends a job and this process, with one line about the result.

    The handler runs in a separate thread, because the main thread may be inside a client library. The main thread
    cannot leave the block in the meantime, so that an error that results from the end of the job is not reported.

    Args:
        end: Ends the job, and returns whether the job exists. A QcnnError is suppressed.
        title: Type of the job.
        name: Name of the job.
        done: What `end` does with the job, as a participle.
        seconds: Time limit for a job whose creation is in progress, which the API may not return yet.
        kept: Returns the reason why the job is kept, or an empty string.
    """

    def __init__(
        self,
        end: Callable[[], bool],
        title: str,
        name: str,
        done: str,
        seconds: float,
        kept: Callable[[], str] = lambda: "",
    ) -> None:
        self._end, self._seconds, self._kept = end, seconds, kept
        self._title, self._name, self._done = title, name, done
        self._is_creating = False
        self._received = threading.Event()

    @contextlib.contextmanager
    def installed(self) -> Iterator["Termination"]:
        """Context manager that installs the handler.

        Outside of the main thread it does nothing, because only the main thread can set signal handlers.

        Yields:
            This object.
        """
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        arrived, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        thread = threading.Thread(target=self._wait, args=(arrived,), name="signals", daemon=True)
        thread.start()
        descriptor = signal.set_wakeup_fd(wakeup)
        previous = {
            number: signal.signal(number, lambda *_: self._received.set()) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield self
        finally:
            if self._received.is_set():
                thread.join(_MAX_SECONDS)
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(descriptor)
            os.close(wakeup)

    @contextlib.contextmanager
    def creating(self) -> Iterator[None]:
        """Context manager that marks the creation of the job as in progress."""
        self._is_creating = True
        try:
            yield
        finally:
            self._is_creating = False

    def _wait(self, arrived: int) -> None:
        # Other signals, such as SIGCHLD, are also written to the pipe.
        while received := os.read(arrived, 1):
            if received[0] in (signal.SIGTERM, signal.SIGINT):
                self._received.set()
                self._exit(received[0])
        os.close(arrived)

    def _exit(self, number: int) -> None:
        received = signal.Signals(number).name
        if reason := self._kept():
            exit_with_message(
                f"ended by {received}: {reason}; {self._title} is kept. Given: {self._name}", 128 + number
            )
        result = f"its {self._title} is {self._done}" if self._has_ended() else f"no {self._title} was found"
        exit_with_message(f"ended by {received}; {result}. Given: {self._name}", 128 + number)

    def _has_ended(self) -> bool:
        """End the job, also if its creation is in progress, and return whether it was found."""
        deadline, found = time.monotonic() + self._seconds, False
        with contextlib.suppress(QcnnError):
            found = self._end()
            while self._is_creating and not found and time.monotonic() < deadline:
                found = self._end()
        return found
