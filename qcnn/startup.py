"""Startup and exit of a process: quiet import of TensorFlow, signals, single-line errors."""

import contextlib
import contextvars
import ctypes
import functools
import gc
import logging
import os
import re
import select
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn, TextIO

from qcnn.errors import ConfigError, QcnnError, RetryableError, WriteError
from qcnn.monitoring import logs
from qcnn.process_limits import check_limits, process_limits, reached_limit

# The restartPolicy ExitCode of TFJobs treats 1 to 127 as permanent errors and retries the others. It reserves 138 for
# retryable errors of users (training-operator, "ExitCode").
PERMANENT_ERROR = 2
# Exit code of a worker whose launcher no longer exists. Only a new launcher may adopt its job and restart it.
ABANDONED = 3
RETRYABLE = 138
_LAST_PERMANENT = 127
# Prefix of the error line of a process.
ERROR = "error: "
# Seconds in which a local process must send its first heartbeat, and join the other processes. On a busy machine,
# importing the libraries takes minutes.
START_TIMEOUT_SECONDS = 600.0

# Signals of crashes in libraries.
FAULTS = (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV)

# Seconds in which another thread must end the line that it writes, before the last line of a process.
_LAST_LINE_SECONDS = 1.0
# Seconds between two restorations of the signal handlers.
_RESTORE_SECONDS = 0.1
# Upper bound of the size of C's struct sigaction, whose layout depends on the operating system.
_SIGACTION_BYTES = 256

# Messages of TensorFlow's libraries (tsl/platform/default/logging.cc, absl/log), and continuations of them.
_LIBRARY_MESSAGE = re.compile(
    rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] |[IWEF]\d{4} \d\d:\d\d:\d\d|WARNING: All log messages before absl"
    rb"|To enable the following instructions|Skipping registering GPU devices|\s*$"
)
# Descriptor of the last message, also while stderr is buffered.
_stderr = 2
# Whether `one_line_errors` raises errors instead of exiting.
_raised = contextvars.ContextVar("raised", default=False)


def is_permanent_error(code: int) -> bool:
    """Return whether an exit code is a permanent error, after which the process must not be restarted."""
    return 0 < code <= _LAST_PERMANENT


def load_tensorflow() -> None:
    """Import TensorFlow and detect devices. Output on stderr is discarded unless the import fails.

    Raises:
        ConfigError: If a limit of this process is too small.
    """
    check_limits()
    with loading():
        import tensorflow as tf

        tf.config.list_physical_devices()
    if logging.root.handlers:
        # TensorFlow itself does so only if the root logger had handlers before the import.
        logging.getLogger("tensorflow").handlers.clear()


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Context manager for importing TensorFlow, which discards output on stderr unless the block fails.

    TensorFlow's libraries print messages (no CUDA driver, oneDNN) before they read the log level.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with _without_collection(), buffer_stderr():
        yield


def importing(library: str) -> contextlib.AbstractContextManager[None]:
    """Return a context manager for a first import of a large library, without garbage collection of its modules."""
    return contextlib.nullcontext() if library in sys.modules else _without_collection()


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Context manager for imports. Later collections skip all objects that exist at its end.

    Imported modules are never freed. Skipping garbage collection saves a fifth of the import time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def start_compiler() -> None:
    """Initialize TensorFlow's XLA compiler without its messages. A strategy must be created before."""
    import tensorflow as tf

    with buffer_stderr():
        tf.function(lambda value: value + 1, jit_compile=True, autograph=False)(tf.constant(0.0))


def exit_with_message(reason: str, code: int) -> NoReturn:
    """Exit the process immediately from any thread, and print the reason as the last line of stderr if it is open."""
    # Other threads run while a line is written. A handler whose output is blocked keeps its lock.
    for handler in (*logging.getLogger("qcnn").handlers, *logging.root.handlers):
        if handler.lock:
            handler.lock.acquire(timeout=_LAST_LINE_SECONDS)
    with contextlib.suppress(OSError):
        os.write(_stderr, f"{logs.format_message(reason, logging.ERROR)}\n".encode())
    os._exit(code)


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
        handlers[number] = ctypes.create_string_buffer(_SIGACTION_BYTES)
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
                os.dup2(original, 2)
                _stderr = 2
                buffer.seek(0)
                with contextlib.suppress(OSError):
                    os.write(original, b"".join(line for line in buffer if is_relevant(line)))
                os.close(original)


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
    before = {number: ctypes.create_string_buffer(_SIGACTION_BYTES) for number in FAULTS}
    for number, action in before.items():
        libc.sigaction(number, None, action)
        libc.signal(number, handler)
    try:
        yield
    finally:
        for number, action in before.items():
            libc.sigaction(number, action, None)


@contextlib.contextmanager
def exit_immediately() -> Iterator[None]:
    """Context manager that exits with the exit code of the block, without the cleanup of libraries.

    The destructor of TensorFlow's coordinator would wait for failed workers.
    """
    code = 0
    try:
        yield
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        code = 1
        sys.excepthook(*sys.exc_info())
    drop_output()
    os._exit(code)


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


@contextlib.contextmanager
def errors_raised() -> Iterator[None]:
    """Context manager in which `one_line_errors` raises errors and does not configure the log."""
    token = _raised.set(True)
    try:
        yield
    finally:
        _raised.reset(token)


@contextlib.contextmanager
def _translate_limit_errors() -> Iterator[None]:
    """Context manager that translates errors caused by a limit of this process.

    Raises:
        ConfigError: If the block has reached a limit.
    """
    try:
        yield
    except QcnnError:
        raise
    except Exception as error:
        # Libraries raise many types of errors.
        if reason := reached_limit(f"{type(error).__name__}: {error}", process_limits()):
            raise ConfigError(reason) from None
        raise


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Context manager that prints logs on stdout, and exits with a single-line message on a QcnnError."""
    if _raised.get():
        with _translate_limit_errors():
            yield
        return
    logger = logging.getLogger("qcnn")
    logger.setLevel(logging.INFO)
    if not logger.handlers:
        # A separate handler, because Kubeflow's executor adds time and name to lines of the root logger.
        handler = _Lines()
        handler.setFormatter(logs.Formatter("%(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
    try:
        logs.set_up()
        with _translate_limit_errors():
            yield
    except QcnnError as error:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{logs.format_message(f'{ERROR}{error}', logging.ERROR)}\n")
        drop_output()
        raise SystemExit(RETRYABLE if isinstance(error, RetryableError) else PERMANENT_ERROR) from None


class _Lines(logging.StreamHandler[TextIO]):
    """Log handler that prints lines on the current stdout, and raises an error if it cannot."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """Return the current stdout. A process may run several steps with different outputs."""
        return sys.stdout

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """Raise an error that `one_line_errors` handles."""
        error = sys.exc_info()[1]
        if isinstance(error, BrokenPipeError):
            raise RetryableError("output pipe closed") from None
        if isinstance(error, OSError):
            raise WriteError(f"output: cannot be written ({error.strerror}). Given: standard output") from None
        super().handleError(record)


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
