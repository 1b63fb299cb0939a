"""Threads that train trials of a study at the same time, each in separate processes."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any

from typing_extensions import override

from qcnn.jobs.local.processes import GRACE
from qcnn.process.signals import time_limit
from qcnn.targets.local.observer import Observer, StepState

# Seconds between two checks for signals, and after an interrupt until the threads have ended their processes.
_INTERVAL, _END_SECONDS = 0.1, 2 * GRACE
# Seconds to close displays after an interrupt.
_CLOSE_SECONDS = 1.0
# Number of calls after which a thread waits, because the output is blocked.
_MAX_CALLS = 1000


class Caller:
    """Thread that has called `run_in_threads`, as the other threads see it.

    Python handles signals in the main thread only, so that the other ones ask whether they must end. They also leave
    the display to this thread, because a thread whose output is blocked could not end.
    """

    def __init__(self) -> None:
        self._interrupted = threading.Event()
        self._calls = queue.Queue[Callable[[], None]](_MAX_CALLS)
        self._observers: list[Observer] = []

    def is_interrupted(self) -> bool:
        """Return whether an interrupt, or an error of a thread, has ended the work of the other threads."""
        return self._interrupted.is_set()

    def call(self, function: Callable[[], None]) -> None:
        """Let this thread call a function, unless the work of the other threads has ended."""
        while not self.is_interrupted():
            with contextlib.suppress(queue.Full):
                self._calls.put(function, timeout=_INTERVAL)
                return

    def observer(self, observer: Observer) -> Observer:
        """Return an observer for another thread. This thread calls the methods.

        If the work of the other threads has ended, it also closes the observer.
        """
        self._observers.append(observer)
        return _CalledObserver(observer, self)

    def close(self, observer: Observer) -> None:
        """Close an observer of another thread."""
        observer.close()
        self._observers.remove(observer)

    def make_calls(self, seconds: float) -> None:
        """Call the functions of the other threads.

        Args:
            seconds: Time to wait for the first.
        """
        with contextlib.suppress(queue.Empty):
            function = self._calls.get(timeout=seconds)
            while True:
                function()
                function = self._calls.get_nowait()

    def end(self) -> None:
        """End the work of the other threads."""
        self._interrupted.set()

    def close_observers(self) -> None:
        """Close the observers of threads that have ended early."""
        for observer in self._observers:
            observer.close()


def run_in_threads(count: int, work: Callable[[Caller], None], end_loading: Callable[[], None]) -> None:
    """Call a function in several threads and wait for them.

    Args:
        count: Number of threads.
        work: Function.
        end_loading: Ends a process for which threads wait while it starts.

    Raises:
        BaseException: What the first of them raises, or KeyboardInterrupt.
    """
    caller, threads = Caller(), dict[Future[None], threading.Thread]()
    try:
        for _ in range(count):
            future = Future[None]()
            # A notebook finds the cell of an output by a context variable.
            run = functools.partial(contextvars.copy_context().run, _set_result, future, work, caller)
            threads[future] = threading.Thread(target=run, name="trials", daemon=True)
            threads[future].start()
        running = set(threads)
        while running:
            ended = {future for future in running if future.done()}
            caller.make_calls(0.0 if ended else _INTERVAL)
            for future in ended:
                future.result()
            running -= ended
    except BaseException:
        caller.end()
        started = [future for future, thread in threads.items() if thread.ident is not None]
        if wait(started, _END_SECONDS).not_done:
            end_loading()
            wait(started, _END_SECONDS)
        # The terminal may be blocked.
        with contextlib.suppress(TimeoutError), time_limit(_CLOSE_SECONDS):
            caller.close_observers()
        raise


def _set_result(future: Future[None], work: Callable[[Caller], None], caller: Caller) -> None:
    try:
        work(caller)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(None)


class _CalledObserver(Observer):
    """Observer whose methods another thread calls."""

    def __init__(self, observer: Observer, caller: Caller) -> None:
        self._observer, self._caller = observer, caller

    @override
    def warn(self, line: str) -> None:
        self._caller.call(functools.partial(self._observer.warn, line))

    @override
    def step(self, name: str, state: StepState) -> None:
        self._caller.call(functools.partial(self._observer.step, name, state))

    @override
    def line(self, text: str) -> None:
        self._caller.call(functools.partial(self._observer.line, text))

    @override
    def event(self, process: str, event: Mapping[str, Any]) -> None:
        self._caller.call(functools.partial(self._observer.event, process, event))

    @override
    def close(self) -> None:
        self._caller.call(functools.partial(self._caller.close, self._observer))
