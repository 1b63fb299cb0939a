"""Standard streams of a process: closed ones, output of libraries, and the last line before an exit."""

import contextlib
import ctypes
import functools
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn, TextIO

from qcnn.monitoring import logs
from qcnn.process.exit_codes import PERMANENT_ERROR
from qcnn.process.limits import process_limits, reached_limit

# Prefix of the error line of a process.
ERROR = "error: "
# Signals of crashes in libraries.
FAULTS = (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV)
# Upper bound of the size of C's struct sigaction, whose layout depends on the operating system.
SIGACTION_BYTES = 256
# Seconds in which another thread must end the line that it writes, before the last line of a process.
_LAST_LINE_SECONDS = 1.0
# Messages of TensorFlow's libraries (tsl/platform/default/logging.cc, absl/log), and continuations of them.
_LIBRARY_MESSAGE = re.compile(
    rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] |[IWEF]\d{4} \d\d:\d\d:\d\d|WARNING: All log messages before absl"
    rb"|To enable the following instructions|Skipping registering GPU devices|\s*$"
)
# Descriptor of the last message, also while stderr is buffered.
_stderr = 2


def exit_with_message(reason: str, code: int) -> NoReturn:
    """Exit the process immediately from any thread, and print the reason as the last line of stderr if it is open."""
    # Other threads run while a line is written. A handler whose output is blocked keeps its lock.
    for handler in (*logging.getLogger("qcnn").handlers, *logging.root.handlers):
        if handler.lock:
            handler.lock.acquire(timeout=_LAST_LINE_SECONDS)
    with contextlib.suppress(OSError):
        os.write(_stderr, f"{logs.format_message(reason, logging.ERROR)}\n".encode())
    os._exit(code)


@functools.cache
def process_lock(name: str, pid: int) -> threading.Lock:
    """Return the lock with this name of a process. A forked process has another one, because a thread may hold this."""
    return threading.Lock()


@contextlib.contextmanager
def buffer_stderr() -> Iterator[None]:
    """Context manager that discards output of libraries on stderr unless the block fails or the process crashes.

    It also discards the output of C++ code. Threads enter the block one after the other. Lines that another thread
    prints in the meantime are printed at the end of the block.
    """
    global _stderr
    with process_lock("stderr", os.getpid()):
        sys.stderr.flush()
        original = _stderr = os.dup(2)
        with tempfile.TemporaryFile() as buffer, _print_on_crash(buffer.fileno(), original):
            os.dup2(buffer.fileno(), 2)
            is_relevant: Callable[[bytes], bool] = _is_from_other_thread
            try:
                yield
            except BaseException:
                is_relevant = bool
                raise
            finally:
                # Before later lines go to the stream itself, so that the lines of a thread keep their order.
                done = _copy_lines(buffer.fileno(), 0, original, is_relevant)
                os.dup2(original, 2)
                _stderr = 2
                _copy_lines(buffer.fileno(), done, original, is_relevant)
                os.close(original)


def _copy_lines(buffer: int, start: int, original: int, is_relevant: Callable[[bytes], bool]) -> int:
    """Copy the relevant lines of a file from a position on, and return its end.

    The file is read without a change of its position, at which other threads write.
    """
    while content := os.pread(buffer, os.fstat(buffer).st_size - start, start):
        start += len(content)
        with contextlib.suppress(OSError):
            os.write(original, b"".join(line for line in content.splitlines(keepends=True) if is_relevant(line)))
    return start


def _is_from_other_thread(line: bytes) -> bool:
    """Return whether a line on stderr may be from another thread of the user, and not from a library."""
    others = sum(not thread.daemon for thread in threading.enumerate()) - 1
    return others > 0 and not _LIBRARY_MESSAGE.match(line)


@contextlib.contextmanager
def _print_on_crash(buffer: int, original: int) -> Iterator[None]:
    """Context manager that copies a file to another descriptor if a library crashes the process.

    A library prints the reason before SIGABRT. Python's own signal handlers would run only after the library returns,
    which it does not. If the reason is a limit of the process, it exits with a single-line message instead.
    """
    libc = ctypes.CDLL(None)

    def print_buffer(number: int) -> None:
        libc.signal(number, None)
        output = os.pread(buffer, os.fstat(buffer).st_size, 0)
        if reason := reached_limit(output.decode(errors="replace"), process_limits(), crashed=True):
            exit_with_message(f"{ERROR}{reason}", PERMANENT_ERROR)
        os.write(original, output)
        # The signal is delivered when this handler returns.
        libc["raise"](number)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(print_buffer)
    before = {number: ctypes.create_string_buffer(SIGACTION_BYTES) for number in FAULTS}
    for number, action in before.items():
        libc.sigaction(number, None, action)
        libc.signal(number, handler)
    try:
        yield
    finally:
        for number, action in before.items():
            libc.sigaction(number, action, None)


def open_standard_streams() -> None:
    """Open /dev/null for each of stdin, stdout and stderr that is closed.

    Otherwise the next files that the process opens would get their descriptors and receive the output.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "r" if descriptor == 0 else "w", closefd=False))  # noqa: SIM115


def drop_output(*others: TextIO) -> None:
    """Discard output that cannot be printed, which Python would otherwise retry and report at exit.

    Args:
        *others: Streams in addition to the current stdout and stderr.
    """
    for stream in (sys.stdout, sys.stderr, *others):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
