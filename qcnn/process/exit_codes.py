"""Exit codes of processes, and which of them are permanent errors."""

# The restartPolicy ExitCode of TFJobs treats 1 to 127 as permanent errors and retries the others. It reserves 138 for
# retryable errors of users (training-operator, "ExitCode").
PERMANENT_ERROR = 2
# Exit code of a worker whose launcher no longer exists. Only a new launcher may adopt its job and restart it.
ABANDONED = 3
RETRYABLE = 138
LAST_PERMANENT = 127


def is_permanent_error(code: int) -> bool:
    """Return whether an exit code is a permanent error, after which the process must not be restarted."""
    return 0 < code <= LAST_PERMANENT
