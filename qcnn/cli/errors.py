"""Errors of the command line."""

# The exit codes of qcnn; where a command follows processes elsewhere it may also end with the code of one that failed.
DONE, FAILED, REFUSED = 0, 1, 2
# 128 + the signal: SIGINT; SIGPIPE, where nobody reads the output any more.
INTERRUPTED, UNREAD = 130, 141


class OutputLostError(KeyboardInterrupt):
    """The output of a run can no longer be written, so the run has to end; `code` is the exit code of qcnn.

    It is a KeyboardInterrupt because it is raised inside logging, which swallows other exceptions.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
