"""Errors of submitted jobs and target services, and the output of client libraries."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from typing import TextIO

from qcnn.errors import QcnnError, TrainingError


class StepError(TrainingError):
    """A failed pipeline step or job.

    `message` is one line that names the step or job. `code` is the exit code of the command.
    """

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class BackendError(QcnnError):
    """An error response or no response from a service of a target, with a single-line message."""


class CredentialsError(BackendError):
    """Credentials that the service rejected, for example because they expired."""


class UnavailableError(BackendError):
    """A service that is unreachable or fails, possibly only for a while."""


@contextlib.contextmanager
def suppress_output() -> Iterator[None]:
    """Context manager that hides the warnings and standard output of a client library.

    They refer to the client's code, which is of no use to users of qcnn.
    """
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Handler of `logs_to_stderr`, with the number of its users and the level of the logger before."""

    def __init__(self, level_before: int) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))
        self.users, self.level_before = 0, level_before


@contextlib.contextmanager
def logs_to_stderr() -> Iterator[None]:
    """Context manager that prints the log messages of a launcher to stderr, once in nested or overlapping contexts."""
    logger = logging.getLogger("qcnn")
    handler = next((each for each in logger.handlers if isinstance(each, _StderrHandler)), None)
    if handler is None:
        handler = _StderrHandler(logger.level)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    handler.users += 1
    try:
        yield
    finally:
        handler.users -= 1
        if not handler.users:
            logger.removeHandler(handler)
            logger.setLevel(handler.level_before)
