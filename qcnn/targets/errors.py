"""Errors of what is sent elsewhere and followed there: one line each."""

from qcnn.errors import QcnnError, bounded


class StepError(Exception):
    """A step of a pipeline, or a job, failed; the message is one line that names it, `code` the exit code of qcnn."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(bounded(message))
        self.code = code


class BackendError(QcnnError):
    """The pipelines backend refuses, or cannot be asked; the message is one line that says why."""


class CredentialsError(BackendError):
    """The backend does not accept the credentials; they may have expired."""


class UnavailableError(BackendError):
    """The backend does not answer or fails; it may come back."""
