"""How a process of the image starts: quiet while TensorFlow loads, one line when it cannot go on."""

import contextlib
import contextvars
import ctypes
import gc
import logging
import os
import select
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from qcnn.errors import ArtifactError, QcnnError, RetryableError
from qcnn.monitoring import logs

# TFJob's restartPolicy ExitCode takes 1 to 127 as permanent and retries the rest; 138 is the code it
# leaves to users for that (training-operator, "ExitCode").
OWN_FAULT = 2
# The exit code of a worker whose launcher is gone: a new launcher may take up its job, but nothing else restarts it.
ABANDONED = 3
RETRYABLE = 138
_LAST_PERMANENT = 127
# How the line begins with which a process says why it ends.
ERROR = "error: "

# Signals by which a library ends its process, or the system where a library is at fault.
FAULTS = (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV)

# Seconds between two restorations of the handlers of signals, and at least the bytes of C's struct sigaction, which is
# read and written whole: its layout is another on each operating system.
_RESTORE_SECONDS = 0.1
_SIGACTION_BYTES = 256

# Where the last message goes, even while stderr is held back.
_stderr = 2
# Whether what would end this process is raised instead.
_raised = contextvars.ContextVar("raised", default=False)


def is_permanent_error(code: int) -> bool:
    """Whether a process that ended with this exit code must not be tried again."""
    return 0 < code <= _LAST_PERMANENT


def load_tensorflow() -> None:
    """Import TensorFlow and look for devices, holding back what that prints on stderr unless it fails."""
    with loading():
        import tensorflow as tf

        tf.config.list_physical_devices()
    if logging.root.handlers:
        # As TensorFlow does where it is loaded after the log has got its handlers.
        logging.getLogger("tensorflow").handlers.clear()


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Load modules in this block, TensorFlow among them, holding back what that prints on stderr unless it fails.

    In every process its libraries print greetings (no CUDA driver, oneDNN) before any log level counts.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # What is loaded stays: to look through it for garbage takes a fifth of the time.
    gc.disable()
    try:
        with buffer_stderr():
            yield
    finally:
        gc.freeze()
        gc.enable()


def start_compiler() -> None:
    """Compile something, holding back the greetings of TensorFlow's compiler; after a strategy was created."""
    import tensorflow as tf

    with buffer_stderr():
        tf.function(lambda value: value + 1, jit_compile=True)(tf.constant(0.0))


def end_now(reason: str, code: int) -> NoReturn:
    """End this process from any thread, whatever the others do; print why on stderr if that is still open."""
    with contextlib.suppress(OSError):
        os.write(_stderr, f"{logs.format_message(reason, logging.ERROR)}\n".encode())
    os._exit(code)


def end_on_signals() -> None:
    """End this process at once on SIGTERM and Ctrl-C, with 128 + the signal's number and one line.

    The main thread may be inside TensorFlow for as long as a peer lets it wait, where no Python handler runs;
    but whichever thread takes the signal, its number goes to a pipe, on which a thread of its own waits. That thread
    also restores the handlers, for the server of TensorFlow replaces that of SIGTERM when it starts.
    """
    arrived, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    libc = ctypes.CDLL(None)
    handlers = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
        # Only the main thread may call signal.signal, and it may be inside TensorFlow.
        handlers[number] = ctypes.create_string_buffer(_SIGACTION_BYTES)
        libc.sigaction(number, None, handlers[number])

    def wait() -> None:
        while not select.select([arrived], [], [], _RESTORE_SECONDS)[0]:
            for number, handler in handlers.items():
                libc.sigaction(number, handler, None)
        taken = os.read(arrived, 1)[0]
        end_now(f"ended by {signal.Signals(taken).name}; the last checkpoint counts", 128 + taken)

    threading.Thread(target=wait, name="signals", daemon=True).start()


@contextlib.contextmanager
def terminated_as_interrupt() -> Iterator[None]:
    """Let SIGTERM unwind the main thread like Ctrl-C, so that what was started is ended on the way out."""
    if threading.current_thread() is not threading.main_thread():
        # Signals are the main thread's.
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
def buffer_stderr() -> Iterator[None]:
    """Hold back what is printed on stderr in this block, from C++ too, unless it fails or a fault kills the process."""
    global _stderr
    sys.stderr.flush()
    original = _stderr = os.dup(2)
    with tempfile.TemporaryFile() as held, _shown_if_killed(held.fileno(), original):
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(original, held.read())
            raise
        finally:
            os.dup2(original, 2)
            _stderr = 2
            os.close(original)


@contextlib.contextmanager
def _shown_if_killed(held: int, original: int) -> Iterator[None]:
    """Copy a file to another descriptor if a fault of a library kills this process in this block.

    A library that ends the process by SIGABRT has printed the reason before. Python's own handlers run too late: when
    the library returns, which it does not.
    """
    libc = ctypes.CDLL(None)

    def show(number: int) -> None:
        libc.signal(number, None)
        os.write(original, os.pread(held, os.fstat(held).st_size, 0))
        # Is delivered when this handler returns.
        libc["raise"](number)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(show)
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
    """End this process where the block ends, with its exit code, whatever a library would still wait for.

    TensorFlow's coordinator waits, where it is taken apart, for workers that are lost.
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
def noted_interrupts() -> Iterator[list[int]]:
    """Yield a list that gets the number of a signal which interrupts, at the end of the block at the latest.

    Code that is not ours may swallow the interrupt, turn it into something else, or raise one of its own.
    """
    noted: list[int] = []
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        handlers[number](number, frame)

    python_handled = [number for number, handler in handlers.items() if callable(handler)]
    if threading.current_thread() is not threading.main_thread():
        # Signals are the main thread's.
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
    """Let errors of steps that are called in this block reach whoever calls them, and leave the log as it is."""
    token = _raised.set(True)
    try:
        yield
    finally:
        _raised.reset(token)


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """End the process with one line on stderr where the cause is known; show log lines on stdout."""
    if _raised.get():
        yield
        return
    logger = logging.getLogger("qcnn")
    logger.setLevel(logging.INFO)
    if not logger.handlers:
        # A handler of its own: Kubeflow's executor puts time and name before what goes to the root logger.
        handler = _Lines()
        handler.setFormatter(logs.Formatter("%(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
    try:
        logs.set_up()
        yield
    except QcnnError as error:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{logs.format_message(f'{ERROR}{error}', logging.ERROR)}\n")
        drop_output()
        raise SystemExit(RETRYABLE if isinstance(error, RetryableError) else OWN_FAULT) from None


if TYPE_CHECKING:
    _Handler = logging.StreamHandler[TextIO]
else:
    # Python 3.10 has it without the kind of its stream.
    _Handler = logging.StreamHandler


class _Lines(_Handler):
    """Prints lines on whatever is stdout; logging would only report that it cannot, which has to end this process."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """Return stdout: a process may run several steps, each with an output of its own."""
        return sys.stdout

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """Raise what one_line_errors understands."""
        error = sys.exc_info()[1]
        if isinstance(error, BrokenPipeError):
            raise RetryableError("nobody reads the output of this process any more") from None
        if isinstance(error, OSError):
            raise ArtifactError(f"output: cannot be written ({error.strerror}). Given: standard output") from None
        super().handleError(record)


def open_standard_streams() -> None:
    """Open stdin, stdout and stderr on /dev/null where the process was started without them.

    Otherwise the next files that it opens would take their places, and get what is printed.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "r" if descriptor == 0 else "w", closefd=False))  # noqa: SIM115


def drop_output() -> None:
    """Drop what can no longer be printed: Python would try again at the end, and report that it failed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
