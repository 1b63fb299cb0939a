"""Handlers of signals: immediate exit, Ctrl-C for SIGTERM, time limits, and interrupts at the end of a block."""

import contextlib
import ctypes
import os
import select
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from qcnn.process.standard_streams import SIGACTION_BYTES, exit_with_message

# Seconds between two restorations of the signal handlers.
_RESTORE_SECONDS = 0.1


def end_on_signals() -> None:
    """Exit immediately on SIGTERM and SIGINT, with 128 + signal number and a single-line message.

    No Python handler runs while the main thread waits inside TensorFlow for a peer. Therefore the signal number is
    written to a pipe that a separate thread reads. That thread also restores the handlers, because TensorFlow's server
    replaces the handler of SIGTERM when it starts.
    """
    arrived, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    libc = ctypes.CDLL(None)
    handlers = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
        # Only the main thread may call signal.signal, so the other thread restores handlers with sigaction.
        handlers[number] = ctypes.create_string_buffer(SIGACTION_BYTES)
        libc.sigaction(number, None, handlers[number])

    def wait() -> None:
        while not select.select([arrived], [], [], _RESTORE_SECONDS)[0]:
            for number, handler in handlers.items():
                libc.sigaction(number, handler, None)
        taken = os.read(arrived, 1)[0]
        exit_with_message(f"ended by {signal.Signals(taken).name}; the last checkpoint is kept", 128 + taken)

    threading.Thread(target=wait, name="signals", daemon=True).start()


@contextlib.contextmanager
def terminated_as_interrupt() -> Iterator[None]:
    """Context manager that handles SIGTERM like Ctrl-C, so that cleanup code terminates child processes."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may set signal handlers.
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Context manager that raises TimeoutError, also while the block waits for a file, and again after each limit.

    Only the main thread has a limit.

    Args:
        seconds: Time of the block, or 0 for no limit.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    def expire(*_: object) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[list[int]]:
    """Context manager that yields a list of received signals, and raises KeyboardInterrupt after them.

    KeyboardInterrupt is raised at the end of the block at the latest, because custom code in the block may catch or
    translate it. Custom code may also raise KeyboardInterrupt without a signal.
    """
    noted: list[int] = []
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        handlers[number](number, frame)

    python_handled = [number for number, handler in handlers.items() if callable(handler)]
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may set signal handlers.
        python_handled = []
    for number in python_handled:
        signal.signal(number, note)
    try:
        yield noted
    finally:
        for number in python_handled:
            signal.signal(number, handlers[number])
    if noted:
        raise KeyboardInterrupt
