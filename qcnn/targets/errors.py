"""Errors of submitted jobs and target services, and the output of client libraries."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

from qcnn.errors import QcnnError, truncate_message


class StepError(Exception):
    """A failed pipeline step or job.

    `message` is one line that names the step or job. `code` is the exit code of the command.
    """

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(truncate_message(message))
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


@contextlib.contextmanager
def logs_to_stderr() -> Iterator[None]:
    """Context manager that prints the log messages of a launcher to stderr."""
    logger = logging.getLogger("qcnn")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
