"""Errors of the command line."""

from trainer.errors import QcnnError, bounded

# What a program ends with whose output nobody reads any more: 128 + SIGPIPE.
UNREAD = 141


class StepError(Exception):
    """A step of a pipeline, or a job, failed; the message is one line that names it, `code` what qcnn ends with."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(bounded(message))
        self.code = code


class OutputLostError(KeyboardInterrupt):
    """What a run says can no longer be written, so it has to end; `code` is what qcnn ends with.

    An interrupt, because logging and Kubeflow's runner, through which it has to come, swallow everything else.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class BackendError(QcnnError):
    """The pipelines backend refuses, or cannot be asked; the message is one line that says why."""


class CredentialsError(BackendError):
    """The backend does not accept who asks, perhaps no longer."""


class UnavailableError(BackendError):
    """The backend does not answer, or fails; it may come back."""
