"""Connection settings, API clients of Vertex AI, and their errors as single-line messages."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import datetime
import functools
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from qcnn.errors import ConfigError, service_message
from qcnn.jobs.vertex.location import ENDPOINT_VARIABLE, VertexLocation, logging_endpoint_of
from qcnn.storage.store import proxy_note
from qcnn.targets.base import JobStatus, TargetSettings
from qcnn.targets.errors import BackendError, CredentialsError, UnavailableError
from qcnn.targets.settings import setting

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CustomJob, PipelineJob, PipelineTaskDetail


def as_json(request: Any) -> str:
    """Return a request as JSON with the field names of the API."""
    from google.protobuf import json_format

    text: str = json_format.MessageToJson(type(request).pb(request), indent=2, sort_keys=True)
    return text


def id_of(resource: Any) -> str:
    """Return the ID of a run, a job or a schedule, the last part of its resource name."""
    return str(resource.name.rpartition("/")[2])


def status_of(resource: PipelineJob | CustomJob, state: str, *, has_ended: bool) -> JobStatus:
    """Return the status of a run or job, with the fields that both have. Its age is None if it is unknown.

    Args:
        resource: The run or job.
        state: Its state without the common prefix of all states.
        has_ended: Whether the state is a last one.
    """
    age = datetime.datetime.now(datetime.UTC) - resource.create_time if resource.create_time else None
    return JobStatus(
        job=id_of(resource),
        name=resource.display_name,
        state=state.lower(),
        has_ended=has_ended,
        has_succeeded=state == "SUCCEEDED",
        age=None if age is None else max(float(age.total_seconds()), 0.0),
        duration=seconds_of(resource),
        message=service_message(resource.error.message),
    )


def seconds_of(ended: PipelineJob | PipelineTaskDetail | CustomJob) -> float | None:
    """Return the duration of a run, task or job in seconds, or None if it has not ended."""
    if not (ended.start_time and ended.end_time):
        return None
    return round(float((ended.end_time - ended.start_time).total_seconds()), 3)


_LOGIN = "log in (gcloud auth application-default login), or run as a service account with credentials"


class NotFoundError(BackendError):
    """A requested resource that does not exist."""


class AlreadyExistsError(BackendError):
    """A resource to create that already exists."""


@contextlib.contextmanager
def translate_errors(place: VertexLocation) -> Iterator[None]:
    """Context manager that translates exceptions of API requests to single-line errors.

    Raises:
        BackendError: If Vertex AI rejects the request or is unavailable.
    """
    from qcnn.jobs.vertex.client import auth_exceptions, exceptions

    try:
        yield
    except (exceptions.GoogleAPIError, auth_exceptions.GoogleAuthError, OSError) as error:
        raise _api_error(error, place) from None


def _api_error(error: BaseException, place: VertexLocation) -> BackendError:
    from qcnn.jobs.vertex.client import auth_exceptions, describe_error, exceptions, is_quota, is_unavailable

    where = place.title
    if is_quota(error):
        return UnavailableError(f"quota: exhausted ({describe_error(error)}). Given: {where}")
    if is_unavailable(error):
        return UnavailableError(
            f"Vertex AI: no response ({describe_error(error)}{proxy_note(os.environ)}). Given: {place.endpoint}"
        )
    match error:
        case auth_exceptions.DefaultCredentialsError():
            return CredentialsError(f"credentials: no Google credentials found; {_LOGIN}. Given: none")
        case auth_exceptions.GoogleAuthError() | exceptions.Unauthenticated() | exceptions.Unauthorized():
            return CredentialsError(f"credentials: rejected ({describe_error(error)}); {_LOGIN}. Given: {where}")
        case exceptions.Forbidden():
            return BackendError(f"permission: denied ({describe_error(error)}). Given: {where}")
        case exceptions.NotFound():
            return NotFoundError(f"Vertex AI: not found ({describe_error(error)}). Given: {where}")
        case exceptions.Conflict():
            return AlreadyExistsError(f"Vertex AI: already exists ({describe_error(error)}). Given: {where}")
    return BackendError(f"Vertex AI: request rejected ({describe_error(error)}). Given: {where}")


# Timeouts of a request, and of a long-running operation.
_SECONDS, _WORK_SECONDS = 60.0, 120.0
_LOGGING = "LoggingServiceV2"
_PAGE = 1000


class VertexClient:
    """Clients of the Vertex AI services in a location, each connected on first use.

    Unavailable services are retried for seconds, or for minutes once a request has succeeded.
    """

    def __init__(self, place: VertexLocation) -> None:
        self.place = place
        self._clients: dict[str, Any] = {}
        self._answered = False

    def close(self) -> None:
        """Close the connections of all clients."""
        while self._clients:
            _, client = self._clients.popitem()
            client.transport.close()

    def call(self, method: str, request: Any = None, *, retry: bool = True, **fields: Any) -> Any:
        """Call a method of the API, such as PipelineService.get_pipeline_job, and return the response.

        Args:
            method: Service and method.
            request: Request message. None: the request consists of `fields`.
            retry: Whether to retry. False for requests that are not idempotent.
            fields: Fields of the request.

        Raises:
            BackendError: If Vertex AI rejects the request or is unavailable.
        """
        return self._call(method, lambda call: call(fields if request is None else request), retry=retry)

    def pages(self, method: str, **fields: Any) -> list[Any]:
        """Return all items of a paginated list of the location.

        Raises:
            BackendError: If Vertex AI rejects the request or is unavailable.
        """
        return self.list_items(method, **{"parent": self.place.parent, **fields})

    def check(self, method: str, **fields: Any) -> None:
        """Request the first page of a paginated list.

        Raises:
            BackendError: If Vertex AI rejects the request or is unavailable.
        """
        self._call(method, lambda call: call({**fields, "page_size": 1}))

    def entries(self, filtered: str) -> list[Any]:
        """Return the Cloud Logging entries that match a filter, in chronological order.

        Raises:
            BackendError: If Cloud Logging rejects the request or is unavailable.
        """
        project = f"projects/{self.place.project}"
        request = {"resource_names": [project], "filter": filtered, "order_by": "timestamp asc", "page_size": _PAGE}
        found: list[Any] = self._call(f"{_LOGGING}.list_log_entries", lambda call: list(call(request)))
        return found

    def list_items(self, method: str, **fields: Any) -> list[Any]:
        """Return all items of a paginated list of another resource than the location.

        Raises:
            BackendError: If Vertex AI rejects the request or is unavailable.
        """
        found: list[Any] = self._call(method, lambda call: list(call(fields)))
        return found

    def finish(self, method: str, *, seconds: float = _WORK_SECONDS, retry: bool = True, **fields: Any) -> None:
        """Call a method that starts a long-running operation, and wait for the operation.

        Args:
            method: Service and method.
            seconds: Timeout of the operation.
            retry: Whether to retry the request. False for requests that are not idempotent.
            fields: Fields of the request.

        Raises:
            BackendError: If Vertex AI rejects the request or is unavailable, or the operation fails or times out.
        """
        operation = self.call(method, retry=retry, **fields)
        with translate_errors(self.place):
            try:
                operation.result(timeout=seconds)
            except concurrent.futures.TimeoutError:
                raise UnavailableError(
                    f"{method}: not finished within {seconds:g} s; it continues. Given: {operation.operation.name}"
                ) from None

    def delete(self, method: str, name: str) -> None:
        """Delete a resource, and wait until it no longer exists. A missing resource is no error.

        Raises:
            BackendError: If Vertex AI rejects the request or is unavailable.
        """
        # A retry after a lost response does not find the deleted resource.
        with contextlib.suppress(NotFoundError):
            self.finish(method, name=name)

    def _call(self, method: str, use: Callable[[Callable[..., Any]], Any], *, retry: bool = True) -> Any:
        from qcnn.jobs.vertex.client import call_with_retries

        service, _, name = method.partition(".")
        with translate_errors(self.place):
            call = functools.partial(getattr(self._client(service), name), retry=None, timeout=_SECONDS)
            answer = call_with_retries(method, lambda: self._answered)(use, call) if retry else use(call)
        self._answered = True
        return answer

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            from qcnn.jobs.vertex import client

            is_log = service == _LOGGING
            endpoint = logging_endpoint_of(os.environ) if is_log else self.place.endpoint
            kind = client.LoggingServiceV2Client if is_log else getattr(client.aiplatform, f"{service}Client")
            self._clients[service] = kind(client_options={"api_endpoint": endpoint})
        return self._clients[service]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection(TargetSettings):
    """Project and location. The environment variables are those of Google's libraries, then gcloud's.

    Raises:
        ConfigError: If a setting is malformed.
    """

    project: str = setting(
        "Google Cloud project.", variables=("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"), metavar="ID"
    )
    location: str = setting(
        "Region, such as us-central1.", variables=("GOOGLE_CLOUD_REGION", "CLOUDSDK_AI_REGION"), metavar="REGION"
    )
    api_endpoint: str = setting(
        "API endpoint to use instead of the region's, as HOST[:PORT].",
        "",
        variables=(ENDPOINT_VARIABLE,),
        metavar="HOST",
    )

    def __post_init__(self) -> None:
        # VertexLocation validates the three settings.
        _ = self.place

    @property
    def place(self) -> VertexLocation:
        """The validated project, location and endpoint."""
        for name in ("project", "location", "api_endpoint"):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(f"{name}: must be text. Given: {getattr(self, name)!r}")
        return VertexLocation(self.project, self.location, self.api_endpoint)
