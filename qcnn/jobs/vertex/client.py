"""Client for Vertex AI jobs, based on Google's client libraries.

The libraries are imported without their warnings about Python releases. The import takes 1.5 s, so only modules that
send requests to Vertex AI import this module.
"""

from __future__ import annotations

import dataclasses
import logging
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import tenacity

from qcnn.errors import ConfigError, QcnnError, RetryableError, service_message
from qcnn.jobs.vertex.location import VertexLocation

if TYPE_CHECKING:
    pass


with warnings.catch_warnings():
    # The library warns about Python releases that future versions will not support.
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


# Both types have a name, a state, labels, times and an error.
VertexJob = aiplatform.CustomJob | aiplatform.HyperparameterTuningJob


@dataclasses.dataclass(frozen=True)
class JobType:
    """Type of Vertex AI job.

    `title` is its name in messages, `field` its field in requests, `type` its message class, `specification` its field
    with the CustomJobSpec.
    """

    title: str
    field: str
    type: type[Any]
    specification: str

    def request(self, action: str) -> Any:
        """Return the request class of an action, such as ListCustomJobsRequest."""
        suffix = "sRequest" if action == "List" else "Request"
        return getattr(aiplatform, f"{action}{self.type.__name__}{suffix}")

    def processes(self, job: VertexJob) -> aiplatform.CustomJobSpec:
        """Return the CustomJobSpec of a job, for a tuning job that of its trials."""
        spec: aiplatform.CustomJobSpec = getattr(job, self.specification)
        return spec


CUSTOM = JobType("custom job", "custom_job", aiplatform.CustomJob, "job_spec")
TUNING = JobType("tuning job", "hyperparameter_tuning_job", aiplatform.HyperparameterTuningJob, "trial_job_spec")


def kind_of(job: VertexJob) -> JobType:
    """Return the type of a job."""
    return CUSTOM if isinstance(job, aiplatform.CustomJob) else TUNING


# Errors after which the result of the request is unknown and a retry may succeed.
_BROKEN = (
    exceptions.ServerError,
    exceptions.Cancelled,
    exceptions.Aborted,
    exceptions.RetryError,
    auth_exceptions.TransportError,
    OSError,
)


def is_unavailable(error: BaseException) -> bool:
    """Return whether an error is a server or connection error that a retry may resolve.

    All other errors mean that the server has rejected the request.
    """
    # 501 means that the server does not implement the method.
    return isinstance(error, _BROKEN) and not isinstance(error, exceptions.MethodNotImplemented)


def is_quota(error: BaseException) -> bool:
    """Return whether a quota of requests per minute or of machines is exhausted."""
    return isinstance(error, exceptions.TooManyRequests)


def describe_error(error: BaseException) -> str:
    """Return the message of an API or connection error as a single line."""
    return service_message(error.message if isinstance(error, exceptions.GoogleAPICallError) else error)


def rejection(error: BaseException, action: str, place: str) -> ConfigError:
    """Return the ConfigError for a request that the server has rejected.

    Args:
        error: Error of the client library.
        action: Action and its object, such as "list custom jobs".
        place: Project and location, for the message.
    """
    reason = describe_error(error)
    if isinstance(error, auth_exceptions.DefaultCredentialsError):
        return ConfigError(
            "credentials: Google credentials not found; log in (gcloud auth application-default login), or run as a "
            f"service account that has credentials. Given: {place}"
        )
    if isinstance(error, exceptions.Unauthenticated | exceptions.Unauthorized | auth_exceptions.GoogleAuthError):
        return ConfigError(f"credentials: rejected by Google ({reason}). Given: {place}")
    if isinstance(error, exceptions.Forbidden):
        return ConfigError(f"permission: {action} is not allowed ({reason}). Given: {place}")
    if isinstance(error, exceptions.NotFound):
        return ConfigError(f"{action}: resource not found ({reason}). Given: {place}")
    return ConfigError(f"{action}: rejected by Vertex AI ({reason}). Given: {place}")


logger = logging.getLogger("qcnn")

# Retry timeouts in seconds before and after the first response. Without any response, the address is probably wrong.
FIRST_SECONDS = 20.0
SECONDS = 600.0
_TRIES_BEFORE_WARNING = 3


def call_with_retries(
    action: str,
    has_answered: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Any] = time.sleep,
) -> tenacity.Retrying:
    """Return a callable that calls a function until it succeeds, with exponential backoff and jitter.

    Server errors, connection errors and exhausted quotas are retried. After the timeout, the last error is raised.

    Args:
        action: Action and its object, for the warning.
        has_answered: Returns whether the server has responded to any request; the timeout is then longer.
        clock: Returns the time in seconds.
        sleep: Waits for a number of seconds.
    """
    start = clock()

    def is_over(state: tenacity.RetryCallState) -> bool:
        return clock() + state.upcoming_sleep - start >= (SECONDS if has_answered() else FIRST_SECONDS)

    def warn(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if error and state.attempt_number == _TRIES_BEFORE_WARNING:
            logger.warning("%s: no response from Google (%s); retrying", action, describe_error(error))

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: is_unavailable(error) or is_quota(error)),
        wait=tenacity.wait_random_exponential(multiplier=0.5, max=10),
        stop=is_over,
        before_sleep=warn,
        sleep=sleep,
        reraise=True,
    )


Result = TypeVar("Result")

_SECONDS = 30.0


class QuotaError(QcnnError):
    """A job cannot be created because a quota is exhausted."""


class ResponseLostError(QcnnError):
    """The connection failed before the response, so it is unknown whether the request was executed."""


class JobClient:
    """Thread-safe client for the jobs of one type in a Vertex AI location.

    All requests except `create` are retried with backoff and jitter after server errors, connection errors and
    exhausted quotas: for `FIRST_SECONDS`, or for `SECONDS` if the server has responded before.

    Raises (all methods):
        ConfigError: If the server rejects the request, or credentials are missing.
        RetryableError: If the server does not respond within the timeout.
    """

    def __init__(self, place: VertexLocation, kind: JobType = CUSTOM) -> None:
        self.place = place
        self.kind = kind
        self._answered = False
        try:
            # Any: the methods are looked up by the job type.
            self._client: Any = aiplatform.JobServiceClient(client_options={"api_endpoint": place.endpoint})
        except auth_exceptions.GoogleAuthError as error:
            raise rejection(error, "log in", str(place.parent)) from None

    def close(self) -> None:
        """Close the connection."""
        self._client.transport.close()

    def find(self, selector: str) -> list[VertexJob]:
        """Return the jobs that match a filter such as labels.qcnn_job=NAME."""
        request = self.kind.request("List")(parent=self.place.parent, filter=selector)
        method = self._method("list", "s")
        return self._call(f"list {self.kind.title}s", lambda: list(method(request, retry=None, timeout=_SECONDS)))

    def get(self, name: str) -> VertexJob | None:
        """Return the job with a resource name, or None if it does not exist."""

        def once() -> VertexJob | None:
            try:
                job: VertexJob = self._method("get")(name=name, retry=None, timeout=_SECONDS)
                return job
            except exceptions.NotFound:
                return None

        return self._call(f"get a {self.kind.title}", once)

    def create(self, job: VertexJob) -> VertexJob:
        """Create a job and return it.

        The request is not retried, because every request creates another job.

        Raises:
            QuotaError: If the quota is exhausted.
            ResponseLostError: If the response was lost. The job may exist, or may appear soon.
        """
        try:
            request = {"parent": self.place.parent, self.kind.field: job}
            created: VertexJob = self._method("create")(**request, retry=None, timeout=_SECONDS)
        except (exceptions.GoogleAPIError, auth_exceptions.GoogleAuthError, OSError) as error:
            if is_quota(error):
                raise QuotaError(f"quota: exhausted ({describe_error(error)}). Given: {self.place.parent}") from None
            if is_unavailable(error):
                raise ResponseLostError(f"create a {self.kind.title}: no response ({describe_error(error)})") from None
            raise rejection(error, f"create {self.kind.title}s", self.place.parent) from None
        self._answered = True
        return created

    def cancel(self, name: str) -> None:
        """Cancel a job, unless it has ended or does not exist."""

        def once() -> None:
            try:
                self._method("cancel")(name=name, retry=None, timeout=_SECONDS)
            except (exceptions.NotFound, exceptions.FailedPrecondition):
                return

        self._call(f"cancel a {self.kind.title}", once)

    def _method(self, action: str, suffix: str = "") -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._client, f"{action}_{self.kind.field}{suffix}")
        return method

    def _call(self, action: str, once: Callable[[], Result]) -> Result:
        try:
            result = call_with_retries(action, lambda: self._answered)(once)
        except (exceptions.GoogleAPIError, auth_exceptions.GoogleAuthError, OSError) as error:
            if is_unavailable(error) or is_quota(error):
                raise RetryableError(
                    f"Vertex AI: {action}: no response ({describe_error(error)}). Given: {self.place.endpoint}"
                ) from None
            raise rejection(error, action, self.place.parent) from None
        self._answered = True
        return result
