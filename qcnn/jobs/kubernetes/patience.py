"""How long a request to the API server is tried again, by whether it has ever answered and by its last answer."""

import dataclasses
import logging
import math
import time
from collections.abc import Callable

import kubernetes.client
import tenacity

from qcnn.jobs.kubernetes.refusals import NO_ANSWER, is_broken, is_final, why

logger = logging.getLogger("qcnn")

# In seconds: a server that never answered probably has a wrong address; one that has answered, even with an error, will
# come back; one that refuses what it has allowed before may be starting, or not know yet of a right that was given.
FIRST_SECONDS = 20.0
SECONDS = 600.0
REFUSAL_SECONDS = 15.0
_REFUSALS = (401, 403)
_TRIES_BEFORE_WARNING = 3


@dataclasses.dataclass
class Patience:
    """Decides after each try of the request `action` whether it is tried again, and when.

    `has_answered` tells whether the server has answered anything yet, `was_allowed` whether it has allowed the same
    before. `report_outage` records that the server is not answering, and returns whether that was unknown. No request
    is tried for longer than `longest` seconds.
    """

    action: str
    has_answered: Callable[[], bool]
    was_allowed: bool
    report_outage: Callable[[], bool] = lambda: True
    longest: float = math.inf
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._refused_since: float | None = None

    def tries(self) -> tenacity.Retrying:
        """Return what calls a function until it succeeds; where it never does, its last error is raised."""
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda error: is_broken(error) or self._may_pass(error)),
            wait=_wait,
            stop=self._is_over,
            before_sleep=self._warn,
            reraise=True,
        )

    def _may_pass(self, error: BaseException | None) -> bool:
        """Whether the server refuses what it has allowed before, and may allow again."""
        return self.was_allowed and _is_refusal(error)

    def _is_over(self, state: tenacity.RetryCallState) -> bool:
        """Whether the next try would come too late."""
        now = self.clock()
        if not self._may_pass(_error(state)):
            self._refused_since = None
            since, seconds = self._began, SECONDS if self.has_answered() else FIRST_SECONDS
        else:
            self._refused_since = now if self._refused_since is None else self._refused_since
            since, seconds = self._refused_since, REFUSAL_SECONDS
        next_try = now + state.upcoming_sleep
        return next_try - since >= seconds or next_try - self._began >= self.longest

    def _warn(self, state: tenacity.RetryCallState) -> None:
        """Log a warning when a request has failed three times: for a refusal of each, for an outage of the first."""
        error = _error(state)
        if error is None or state.attempt_number != _TRIES_BEFORE_WARNING:
            return
        if self._may_pass(error):
            what = f"{self.action} is refused, though it was allowed before"
            logger.warning("%s (%s); trying again for %g s", what, why(error), REFUSAL_SECONDS)
        elif self.report_outage():
            logger.warning("%s (%s); trying again", NO_ANSWER, why(error))


def _is_refusal(error: BaseException | None) -> bool:
    return isinstance(error, kubernetes.client.ApiException) and error.status in _REFUSALS and not is_final(error)


def _error(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _wait(state: tenacity.RetryCallState) -> float:
    """Return the seconds to the next try, at least those that the server asks for."""
    wait = tenacity.wait_random_exponential(multiplier=0.5, max=10)(state)
    error = _error(state)
    headers = error.headers if isinstance(error, kubernetes.client.ApiException) else None
    asked = headers.get("Retry-After", "") if headers else ""
    return max(wait, float(asked)) if asked.isdigit() else wait
