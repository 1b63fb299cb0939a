"""Exit of a process with a single-line message and an exit code, by the error that a block raises."""

import contextlib
import contextvars
import logging
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from qcnn.errors import ConfigError, QcnnError, RetryableError, WriteError
from qcnn.monitoring import logs
from qcnn.process.exit_codes import PERMANENT_ERROR, RETRYABLE
from qcnn.process.limits import process_limits, reached_limit
from qcnn.process.standard_streams import ERROR, drop_output

# Whether `one_line_errors` raises errors instead of exiting.
_raised = contextvars.ContextVar("raised", default=False)


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
