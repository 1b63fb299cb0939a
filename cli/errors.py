"""Errors of the command line."""


class StepError(Exception):
    """A step of a pipeline, or a job, failed; the message is one line that names it, `code` what qcnn ends with."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code
