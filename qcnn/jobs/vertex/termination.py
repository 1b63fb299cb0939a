"""What a launcher does that is told to end: it has its training's jobs cancelled.

Vertex AI sends SIGTERM to the container of a step whose pipeline is cancelled. Google's own components cancel their job
then, too (google_cloud_pipeline_components, container/utils/execution_context.py).
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

from qcnn.jobs.creation import Creation
from qcnn.trainer.startup import end_now

# A job whose creation is under way is looked for this long, in seconds; a container has 30 at most.
GRACE = 5.0


class Termination:
    """Ends this process when SIGTERM or Ctrl-C comes, after `cancel`, which tells whether it found any job.

    `word` is what the job is called, `name` that of what it does.
    A thread of its own does that: the main thread may be inside the client library.
    """

    def __init__(self, cancel: Callable[[], bool], word: str, name: str) -> None:
        self._cancel = cancel
        self._word = word
        self._name = name
        self.creation = Creation()

    @contextlib.contextmanager
    def installed(self) -> Iterator["Termination"]:
        """Handle the signals within this block; outside of the main thread, which alone can, do nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        arrived, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        threading.Thread(target=self._wait, args=(arrived,), name="signals", daemon=True).start()
        descriptor = signal.set_wakeup_fd(wakeup)
        previous = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(descriptor)
            os.close(wakeup)

    def _wait(self, arrived: int) -> None:
        # Other signals, as that of a child, come by here too.
        while received := os.read(arrived, 1):
            if received[0] in (signal.SIGTERM, signal.SIGINT):
                self._end(received[0])
        os.close(arrived)

    def _end(self, number: int) -> None:
        found = self.creation.ended(self._cancel, GRACE)
        what = f"its {self._word} is cancelled" if found else f"no {self._word} of it was found"
        end_now(f"ended by {signal.Signals(number).name}; {what}. Given: {self._name}", 128 + number)
