"""Errors of what is sent elsewhere and followed there, one line each, and output of clients: hidden, or shown."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

from qcnn.errors import QcnnError, truncate_message


class StepError(Exception):
    """A step of a pipeline, or a job, failed; the message is one line that names it, `code` the exit code of qcnn."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(truncate_message(message))
        self.code = code


class BackendError(QcnnError):
    """The pipelines backend refuses, or cannot be asked; the message is one line that says why."""


class CredentialsError(BackendError):
    """The backend does not accept the credentials; they may have expired."""


class UnavailableError(BackendError):
    """The backend does not answer or fails; it may come back."""


@contextlib.contextmanager
def suppress_output() -> Iterator[None]:
    """Hide what a client prints and warns of: it speaks of its own code."""
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def logs_to_stderr() -> Iterator[None]:
    """Show the messages of a launcher on stderr."""
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
