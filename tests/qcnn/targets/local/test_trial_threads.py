"""Threads that end when the study is interrupted, or when one of them fails."""

import signal
import threading

import pytest

from qcnn.jobs.local.processes import IsInterrupted
from qcnn.targets.local.trial_threads import run_in_threads

# Seconds after which a test that waits has failed.
TIMEOUT = 60


def _wait_for(is_interrupted: IsInterrupted) -> None:
    pause = threading.Event()
    for _ in range(TIMEOUT * 100):
        if is_interrupted():
            return
        pause.wait(0.01)
    raise AssertionError("not interrupted")


def test_one_thread_is_the_callers() -> None:
    threads = []
    run_in_threads(1, lambda _: threads.append(threading.current_thread()))
    assert threads == [threading.current_thread()]


def test_threads_run_at_the_same_time_and_are_awaited() -> None:
    barrier, ended = threading.Barrier(3, timeout=TIMEOUT), []

    def work(is_interrupted: IsInterrupted) -> None:
        barrier.wait()
        ended.append(is_interrupted())

    run_in_threads(3, work)
    assert ended == [False] * 3


def test_first_error_ends_the_other_threads() -> None:
    barrier, ended = threading.Barrier(2, timeout=TIMEOUT), []

    def work(is_interrupted: IsInterrupted) -> None:
        if barrier.wait() == 0:
            raise OSError("of one thread")
        _wait_for(is_interrupted)
        ended.append(threading.current_thread())
        raise KeyboardInterrupt

    with pytest.raises(OSError, match="of one thread"):
        run_in_threads(2, work)
    assert len(ended) == 1


@pytest.mark.usefixtures("interruptible")
def test_signal_of_main_thread_ends_all_threads() -> None:
    barrier, ended = threading.Barrier(2, timeout=TIMEOUT), []

    def work(is_interrupted: IsInterrupted) -> None:
        if barrier.wait() == 0:
            # This thread receives it, as any thread may.
            signal.raise_signal(signal.SIGINT)
        _wait_for(is_interrupted)
        ended.append(threading.current_thread())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_threads(2, work)
    assert len(ended) == 2
