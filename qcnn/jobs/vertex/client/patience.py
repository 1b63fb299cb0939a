"""How long a request to Google is tried again, by whether its server has ever answered."""

import logging
import time
from collections.abc import Callable
from typing import Any

import tenacity

from qcnn.jobs.vertex.client.refusals import is_broken, is_quota, why

logger = logging.getLogger("qcnn")

# In seconds: a server that never answered probably has a wrong address; one that has answered will come back.
FIRST_SECONDS = 20.0
SECONDS = 600.0
_TRIES_BEFORE_WARNING = 3


def tries(
    action: str,
    has_answered: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Any] = time.sleep,
) -> tenacity.Retrying:
    """Return what calls a function until it succeeds; where it never does, its last error is raised.

    It is tried again where the server is broken or gone, or has been asked too often. `has_answered` tells whether it
    has answered anything yet.
    """
    began = clock()

    def is_over(state: tenacity.RetryCallState) -> bool:
        return clock() + state.upcoming_sleep - began >= (SECONDS if has_answered() else FIRST_SECONDS)

    def warn(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if error and state.attempt_number == _TRIES_BEFORE_WARNING:
            logger.warning("%s: Google does not answer (%s); trying again", action, why(error))

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: is_broken(error) or is_quota(error)),
        wait=tenacity.wait_random_exponential(multiplier=0.5, max=10),
        stop=is_over,
        before_sleep=warn,
        sleep=sleep,
        reraise=True,
    )
