"""How long machines for a job are waited for."""

import time
from collections.abc import Callable

from qcnn.jobs.vertex.attempts import Attempt
from qcnn.trainer.errors import ConfigError, QcnnError, as_clause

# The states of a job whose processes have not started.
_WAITING = ("QUEUED", "PENDING")


class Room:
    """Waits so many seconds for quota and machines, counted from when they were first missing, anew after a job ran.

    `word` is what the job is called.
    """

    def __init__(self, seconds: float, word: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._word = word
        self._clock = clock
        self._since: float | None = None

    def see(self, job: Attempt) -> None:
        """Take note of the state of a job that has not ended.

        Raises:
            ConfigError: it has waited too long.
        """
        if job.state in _WAITING:
            self._wait(
                f"{self._word}: is {job.state} for {self._seconds:g} s; is there quota, and are there machines?", job.id
            )
        else:
            self._since = None

    def missing(self, error: QcnnError | str, given: str) -> None:
        """Take note that there is no quota, or that there are no machines.

        Raises:
            ConfigError: that has lasted too long.
        """
        self._wait(f"{self._word}: no machines for {self._seconds:g} s ({as_clause(error)})", given)

    def _wait(self, what: str, given: str) -> None:
        now = self._clock()
        self._since = now if self._since is None else self._since
        if now - self._since >= self._seconds:
            raise ConfigError(f"{what} Given: {given}")
