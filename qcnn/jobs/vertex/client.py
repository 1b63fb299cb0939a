"""The client library of Vertex AI and Cloud Logging, loaded without what it says about releases of Python.

It takes a second and a half to load, so only what talks to Vertex AI imports this module or one that does.
"""

from __future__ import annotations

import dataclasses
import logging
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import tenacity

from qcnn.errors import ConfigError, QcnnError, RetryableError, single_line
from qcnn.jobs.vertex.location import VertexLocation

if TYPE_CHECKING:
    pass


with warnings.catch_warnings():
    # The library warns of Python releases that it will not support some day.
    warnings.simplefilter("ignore", FutureWarning)
    import google.auth as auth
    from google.api_core import exceptions as exceptions
    from google.auth import exceptions as auth_exceptions
    from google.cloud import aiplatform_v1 as aiplatform
    from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
    from google.cloud.logging_v2.types import ListLogEntriesRequest, LogEntry

__all__ = [
    "ListLogEntriesRequest",
    "LogEntry",
    "LoggingServiceV2Client",
    "aiplatform",
    "auth",
    "auth_exceptions",
    "exceptions",
]


# Either has a name, a state, labels, times and an error.
VertexJob = aiplatform.CustomJob | aiplatform.HyperparameterTuningJob


@dataclasses.dataclass(frozen=True)
class JobType:
    """One kind of job: its `word` in messages, its `field` in requests, its type and where its processes stand."""

    word: str
    field: str
    type: type[Any]
    specification: str

    def request(self, action: str) -> Any:
        """Return the type of a request, such as List...Request."""
        ending = "sRequest" if action == "List" else "Request"
        return getattr(aiplatform, f"{action}{self.type.__name__}{ending}")

    def processes(self, job: VertexJob) -> aiplatform.CustomJobSpec:
        """Return what says which processes a job runs."""
        found: aiplatform.CustomJobSpec = getattr(job, self.specification)
        return found


CUSTOM = JobType("custom job", "custom_job", aiplatform.CustomJob, "job_spec")
TUNING = JobType("tuning job", "hyperparameter_tuning_job", aiplatform.HyperparameterTuningJob, "trial_job_spec")


def kind_of(job: VertexJob) -> JobType:
    """Return the kind of a job."""
    return CUSTOM if isinstance(job, aiplatform.CustomJob) else TUNING


# Answers after which the same request may succeed, and nobody knows whether it has.
_BROKEN = (
    exceptions.ServerError,
    exceptions.Cancelled,
    exceptions.Aborted,
    exceptions.RetryError,
    auth_exceptions.TransportError,
    OSError,
)


def is_broken(error: BaseException) -> bool:
    """Whether the server is broken or gone, and may come back; every other error is a refusal."""
    # 501 and its like tell that the server does not know the method.
    return isinstance(error, _BROKEN) and not isinstance(error, exceptions.MethodNotImplemented)


def is_quota(error: BaseException) -> bool:
    """Whether a quota is used up, be it one of requests a minute or one of machines."""
    return isinstance(error, exceptions.TooManyRequests)


def why(error: BaseException) -> str:
    """Return what an answer says, or what broke the connection, in one line."""
    return single_line(error.message if isinstance(error, exceptions.GoogleAPICallError) else error)


def refused(error: BaseException, action: str, place: str) -> ConfigError:
    """Return the error of a request that is not tried again."""
    reason = why(error)
    if isinstance(error, auth_exceptions.DefaultCredentialsError):
        return ConfigError(
            "credentials: none of Google are found; log in (gcloud auth application-default login), or run as a "
            f"service account that has some. Given: {place}"
        )
    if isinstance(error, exceptions.Unauthenticated | exceptions.Unauthorized | auth_exceptions.GoogleAuthError):
        return ConfigError(f"credentials: Google refuses them ({reason}). Given: {place}")
    if isinstance(error, exceptions.Forbidden):
        return ConfigError(f"permission: {action} is not allowed ({reason}). Given: {place}")
    if isinstance(error, exceptions.NotFound):
        return ConfigError(f"{action}: what is asked for does not exist ({reason}). Given: {place}")
    return ConfigError(f"{action}: Vertex AI refuses ({reason}). Given: {place}")


logger = logging.getLogger("qcnn")

# In seconds: a server that never answered probably has a wrong address; one that has answered will come back.
FIRST_SECONDS = 20.0
SECONDS = 600.0
_TRIES_BEFORE_WARNING = 3


def call_with_retries(
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


Result = TypeVar("Result")

_SECONDS = 30.0


class QuotaError(QcnnError):
    """No job can be created at present: a quota is used up."""


class ResponseLostError(QcnnError):
    """Nobody knows whether what was asked for is done: the connection broke before the answer came."""


class JobClient:
    """The jobs of one kind in a place. Requests may be made by several threads.

    Every request but `create` is tried again with backoff and jitter while the server is busy, broken or gone, for as
    long as `patience` says: seconds at first, minutes once it has answered anything.

    Raises (by every method):
        ConfigError: the server refuses, or there are no credentials; one line that says what is missing.
        RetryableError: it did not answer for as long as that.
    """

    def __init__(self, place: VertexLocation, kind: JobType = CUSTOM) -> None:
        self.place = place
        self.kind = kind
        self._answered = False
        try:
            # One method for each kind, of the same form.
            self._client: Any = aiplatform.JobServiceClient(client_options={"api_endpoint": place.endpoint})
        except auth_exceptions.GoogleAuthError as error:
            raise refused(error, "log in", str(place.parent)) from None

    def close(self) -> None:
        """Close the connection."""
        self._client.transport.close()

    def find(self, selector: str) -> list[VertexJob]:
        """Return the jobs that match a filter, as of labels: labels.qcnn_job=NAME."""
        request = self.kind.request("List")(parent=self.place.parent, filter=selector)
        listed = self._method("list", "s")
        return self._tried(f"list {self.kind.word}s", lambda: list(listed(request, retry=None, timeout=_SECONDS)))

    def get(self, name: str) -> VertexJob | None:
        """Return a job by its resource name, None if there is none."""

        def once() -> VertexJob | None:
            try:
                found: VertexJob = self._method("get")(name=name, retry=None, timeout=_SECONDS)
                return found
            except exceptions.NotFound:
                return None

        return self._tried(f"get a {self.kind.word}", once)

    def create(self, job: VertexJob) -> VertexJob:
        """Create a job and return it. This is not tried again, since every request makes a job of its own.

        Raises:
            QuotaError: there is no quota left for it.
            UnansweredError: it may be there, or may be soon.
        """
        try:
            given = {"parent": self.place.parent, self.kind.field: job}
            created: VertexJob = self._method("create")(**given, retry=None, timeout=_SECONDS)
        except (exceptions.GoogleAPIError, auth_exceptions.GoogleAuthError, OSError) as error:
            if is_quota(error):
                raise QuotaError(f"quota: none is left ({why(error)}). Given: {self.place.parent}") from None
            if is_broken(error):
                raise ResponseLostError(f"create a {self.kind.word}: no answer ({why(error)})") from None
            raise refused(error, f"create {self.kind.word}s", self.place.parent) from None
        self._answered = True
        return created

    def cancel(self, name: str) -> None:
        """Have a job cancelled; one that has ended or is gone stays as it is."""

        def once() -> None:
            try:
                self._method("cancel")(name=name, retry=None, timeout=_SECONDS)
            except (exceptions.NotFound, exceptions.FailedPrecondition):
                return

        self._tried(f"cancel a {self.kind.word}", once)

    def _method(self, action: str, ending: str = "") -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._client, f"{action}_{self.kind.field}{ending}")
        return method

    def _tried(self, action: str, once: Callable[[], Result]) -> Result:
        try:
            result = call_with_retries(action, lambda: self._answered)(once)
        except (exceptions.GoogleAPIError, auth_exceptions.GoogleAuthError, OSError) as error:
            if is_broken(error) or is_quota(error):
                raise RetryableError(
                    f"Vertex AI: {action}: no answer ({why(error)}). Given: {self.place.endpoint}"
                ) from None
            raise refused(error, action, self.place.parent) from None
        self._answered = True
        return result
