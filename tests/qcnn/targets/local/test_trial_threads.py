"""Threads that end when the study is interrupted, or when one of them fails, and are displayed by their caller."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable

import pytest
from typing_extensions import override

from qcnn.targets.local import trial_threads
from qcnn.targets.local.observer import Observer
from qcnn.targets.local.trial_threads import Caller, run_in_threads

# Seconds after which a test that waits has failed.
TIMEOUT = 60


def _no_processes() -> None:
    raise AssertionError("no thread waits for a process")


def _wait_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(TIMEOUT * 100):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("timeout")


class Recorder(Observer):
    """Observer that notes its lines, its end and the threads that call it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.threads: set[int] = set()

    @override
    def line(self, text: str) -> None:
        self.lines.append(text)
        self.threads.add(threading.get_ident())

    @override
    def close(self) -> None:
        self.line("closed")


def test_threads_run_at_the_same_time_and_are_awaited() -> None:
    barrier, ended = threading.Barrier(3, timeout=TIMEOUT), []

    def work(caller: Caller) -> None:
        barrier.wait()
        ended.append(caller.is_interrupted())

    run_in_threads(3, work, _no_processes)
    assert ended == [False] * 3


def test_caller_displays_all_lines_in_order() -> None:
    shown = [Recorder(), Recorder()]
    left = iter(shown)

    def work(caller: Caller) -> None:
        observer = caller.observer(next(left))
        for number in range(3000):
            observer.line(str(number))
        observer.close()

    run_in_threads(2, work, _no_processes)
    for recorder in shown:
        assert recorder.lines == [*map(str, range(3000)), "closed"]
        assert recorder.threads == {threading.get_ident()}


def test_first_error_ends_the_other_threads_after_its_lines_are_shown() -> None:
    barrier, ended, recorder = threading.Barrier(2, timeout=TIMEOUT), [], Recorder()

    def work(caller: Caller) -> None:
        if barrier.wait() == 0:
            caller.observer(recorder).line("reason")
            raise OSError("of one thread")
        _wait_until(caller.is_interrupted)
        ended.append(threading.current_thread())
        raise KeyboardInterrupt

    with pytest.raises(OSError, match="of one thread"):
        run_in_threads(2, work, _no_processes)
    assert len(ended) == 1
    assert recorder.lines == ["reason", "closed"]


@pytest.mark.usefixtures("interruptible")
def test_signal_ends_all_threads() -> None:
    barrier, ended, recorder = threading.Barrier(2, timeout=TIMEOUT), [], Recorder()

    def work(caller: Caller) -> None:
        observer = caller.observer(recorder)
        if barrier.wait() == 0:
            # This thread receives it, as any thread may.
            signal.raise_signal(signal.SIGINT)
        _wait_until(caller.is_interrupted)
        # Lines that are no longer displayed do not delay the end.
        for number in range(3000):
            observer.line(str(number))
        ended.append(threading.current_thread())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_threads(2, work, _no_processes)
    assert len(ended) == 2
    assert recorder.lines == ["closed"] * 2


def test_thread_that_cannot_start_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = threading.Thread.start, list[threading.Thread]()

    def start_once(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_once)
    with pytest.raises(RuntimeError, match="can't start"):
        run_in_threads(2, lambda caller: _wait_until(caller.is_interrupted), _no_processes)
    started[0].join(TIMEOUT)
    assert not started[0].is_alive()


@pytest.mark.usefixtures("interruptible")
def test_blocked_display_does_not_delay_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_threads, "_CLOSE_SECONDS", 0.1)
    reader, writer = os.pipe()

    class Blocked(Observer):
        @override
        def close(self) -> None:
            # As a terminal that is not read. Each display has a limit.
            with contextlib.suppress(OSError):
                os.read(reader, 1)

    barrier = threading.Barrier(2, timeout=TIMEOUT)

    def work(caller: Caller) -> None:
        caller.observer(Blocked())
        if barrier.wait() == 0:
            signal.raise_signal(signal.SIGINT)
        _wait_until(caller.is_interrupted)

    try:
        with pytest.raises(KeyboardInterrupt):
            run_in_threads(2, work, _no_processes)
    finally:
        os.close(writer)
        os.close(reader)


def test_output_that_fails_ends_threads_that_wait_to_display_more() -> None:
    barrier, callers, ended = threading.Barrier(2, timeout=TIMEOUT), list[Caller](), []

    class Failing(Observer):
        @override
        def line(self, text: str) -> None:
            _wait_until(callers[0]._calls.full)
            raise BrokenPipeError

    def work(caller: Caller) -> None:
        callers.append(caller)
        barrier.wait()
        observer = caller.observer(Failing())
        while not caller.is_interrupted():
            observer.line("")
        ended.append(threading.current_thread())

    with pytest.raises(BrokenPipeError):
        run_in_threads(2, work, _no_processes)
    assert len(ended) == 2


def test_thread_that_waits_for_a_process_ends_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_threads, "_END_SECONDS", 0.1)
    barrier, process_ended, ended = threading.Barrier(2, timeout=TIMEOUT), threading.Event(), []

    def work(_: Caller) -> None:
        if barrier.wait() == 0:
            raise OSError("of the other thread")
        process_ended.wait(TIMEOUT)
        ended.append(process_ended.is_set())

    with pytest.raises(OSError, match="of the other thread"):
        run_in_threads(2, work, process_ended.set)
    _wait_until(lambda: ended == [True])
