"""Threads that train trials of a study at the same time, each in separate processes."""

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait

from qcnn.jobs.local.processes import GRACE, IsInterrupted

# Seconds between two checks for signals, and after an interrupt until the threads have ended their processes.
_INTERVAL, _END_SECONDS = 0.1, 2 * GRACE


def run_in_threads(count: int, work: Callable[[IsInterrupted], None]) -> None:
    """Call a function in several threads and wait for them, or with a count of 1 in this thread.

    Python handles signals in the main thread. Therefore the other ones ask whether they must end. A thread that cannot,
    because its output is blocked, ends with this process.

    Args:
        count: Number of threads.
        work: Function, called with a function that returns whether an interrupt or an error has ended this one.

    Raises:
        BaseException: What the first of them raises, or KeyboardInterrupt.
    """
    interrupted = threading.Event()
    if count == 1:
        work(interrupted.is_set)
        return
    futures: list[Future[None]] = []
    try:
        for _ in range(count):
            futures.append(_in_thread(work, interrupted.is_set))
        running = set(futures)
        while running:
            # A signal that another thread receives does not end a wait of this one.
            ended, running = wait(running, _INTERVAL, FIRST_COMPLETED)
            for future in ended:
                future.result()
    except BaseException:
        interrupted.set()
        wait(futures, _END_SECONDS)
        raise


def _in_thread(work: Callable[[IsInterrupted], None], is_interrupted: IsInterrupted) -> Future[None]:
    future = Future[None]()

    def run() -> None:
        try:
            work(is_interrupted)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)

    # A notebook finds the cell of an output by a context variable.
    threading.Thread(target=contextvars.copy_context().run, args=(run,), name="trials", daemon=True).start()
    return future
