"""How long a request to the API server is tried again: by whether it has ever answered, and by its last words."""

import dataclasses
import logging
import math
import time
from collections.abc import Callable

import kubernetes.client
import tenacity

from launchers.kubernetes.refusals import NO_ANSWER, is_broken, is_final, why

logger = logging.getLogger("qcnn")

# A server that never answered is probably named wrongly. One that did, in whatever words, will come back. One that
# refuses what it has allowed before may be starting, or has not yet heard of a right that was given. In seconds.
FIRST_SECONDS = 20.0
SECONDS = 600.0
REFUSAL_SECONDS = 15.0
_REFUSALS = (401, 403)
_TRIES_BEFORE_A_WORD = 3


@dataclasses.dataclass
class Patience:
    """Decides after each try of one request, named by `action`, whether there is another, and when.

    `has_answered` tells whether the server has answered anything yet, `was_allowed` whether it has allowed the same
    before. No request is tried for longer than `longest` seconds.
    """

    action: str
    has_answered: Callable[[], bool]
    was_allowed: bool
    longest: float = math.inf
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._refused_since: float | None = None

    def tries(self) -> tenacity.Retrying:
        """Return what calls a function until it returns; in the end, its last error is raised."""
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda error: is_broken(error) or self._may_pass(error)),
            wait=_wait,
            stop=self._is_over,
            before_sleep=self._say,
            reraise=True,
        )

    def _may_pass(self, error: BaseException | None) -> bool:
        """Whether a server refuses what it has allowed before, and may allow it again."""
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

    def _say(self, state: tenacity.RetryCallState) -> None:
        """Say once for a request that it is tried again; what passes at the second try is not worth a line."""
        error = _error(state)
        if error is None or state.attempt_number != _TRIES_BEFORE_A_WORD:
            return
        if self._may_pass(error):
            what = f"{self.action} is refused, though it was allowed before"
            logger.warning("%s (%s); trying again for %g s", what, why(error), REFUSAL_SECONDS)
        else:
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
