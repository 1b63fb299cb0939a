"""Exit of a process with a single-line message and an exit code, by the error that a block raises."""

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from qcnn.errors import ConfigError, QcnnError, RetryableError, WriteError
from qcnn.monitoring import logs
from qcnn.process.exit_codes import PERMANENT_ERROR, RETRYABLE
from qcnn.process.limits import process_limits, reached_limit
from qcnn.process.standard_streams import ERROR, drop_output

# Beginning of the names of modules that TensorFlow's AutoGraph generates (autograph/pyct/loader.py).
_GENERATED = "__autograph_generated_file"


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
    _remove_generated_files()
    drop_output()
    os._exit(code)


def _remove_generated_files() -> None:
    """Remove the files of functions that TensorFlow converted, which it would remove at a normal exit."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_GENERATED) and module.__file__:
            with contextlib.suppress(OSError):
                Path(module.__file__).unlink()


@contextlib.contextmanager
def translate_limit_errors() -> Iterator[None]:
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


def log_to_stdout() -> None:
    """Print the log of this process on stdout, in the format of its environment.

    Raises:
        ConfigError: If the environment variable of the format is invalid.
    """
    logger = logging.getLogger("qcnn")
    logger.setLevel(logging.INFO)
    if not logger.handlers:
        # A separate handler, because Kubeflow's executor adds time and name to lines of the root logger.
        handler = _Lines()
        handler.setFormatter(logs.Formatter("%(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
    logs.set_up()


@contextlib.contextmanager
def one_line_errors(report: Callable[[QcnnError], None] = lambda error: None) -> Iterator[None]:
    """Context manager of a process that prints its log on stdout, and exits with a single-line message on a QcnnError.

    Args:
        report: Called with the error before its line is printed.
    """
    try:
        log_to_stdout()
        with translate_limit_errors():
            yield
    except QcnnError as error:
        report(error)
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
