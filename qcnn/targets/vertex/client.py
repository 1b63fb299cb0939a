"""Where on Vertex AI a target asks, its services there, and what their answers mean to a user: one line each."""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import functools
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from qcnn.jobs.vertex.location import VertexLocation, logging_endpoint_of
from qcnn.storage.store import proxy_note
from qcnn.targets.errors import BackendError, CredentialsError, UnavailableError

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CustomJob, PipelineJob, PipelineTaskDetail
import dataclasses

from qcnn.errors import ConfigError
from qcnn.jobs.vertex.location import ENDPOINT_VARIABLE
from qcnn.targets.settings import setting


def as_json(request: Any) -> str:
    """Return a request as JSON, as Google's own API takes it."""
    from google.protobuf import json_format

    text: str = json_format.MessageToJson(type(request).pb(request), indent=2, sort_keys=True)
    return text


def id_of(resource: Any) -> str:
    """Return the id of a run, a job or a schedule: the end of its name."""
    return str(resource.name.rpartition("/")[2])


def age_of(resource: PipelineJob | CustomJob) -> float | None:
    """Return the seconds since a run or a job was created; None where the service does not give that time."""
    if not resource.create_time:
        return None
    age = datetime.datetime.now(datetime.timezone.utc) - resource.create_time
    return max(float(age.total_seconds()), 0.0)


def seconds_of(ended: PipelineJob | PipelineTaskDetail | CustomJob) -> float | None:
    """Return how long a run, a task or a job took, from its start to its end; None where it has not ended."""
    if not (ended.start_time and ended.end_time):
        return None
    return round(float((ended.end_time - ended.start_time).total_seconds()), 3)


_LOGIN = "log in (gcloud auth application-default login), or run as a service account that has some"


class NotFoundError(BackendError):
    """What is asked for does not exist."""


class AlreadyExistsError(BackendError):
    """What is to be created is there."""


@contextlib.contextmanager
def translate_errors(place: VertexLocation) -> Iterator[None]:
    """Turn whatever asking Vertex AI raises into an error of one line.

    Raises:
        BackendError: it refuses, or does not answer.
    """
    from qcnn.jobs.vertex.client import auth_exceptions, exceptions

    try:
        yield
    except (exceptions.GoogleAPIError, auth_exceptions.GoogleAuthError, OSError) as error:
        raise _refused(error, place) from None


def _refused(error: BaseException, place: VertexLocation) -> BackendError:
    from qcnn.jobs.vertex.client import auth_exceptions, exceptions, is_broken, is_quota, why

    where = f"{place.project} in {place.location}"
    if is_quota(error):
        return UnavailableError(f"quota: none is left ({why(error)}). Given: {where}")
    if is_broken(error):
        return UnavailableError(
            f"Vertex AI does not answer ({why(error)}{proxy_note(os.environ)}). Given: {place.endpoint}"
        )
    match error:
        case auth_exceptions.DefaultCredentialsError():
            return CredentialsError(f"credentials: none of Google's are found; {_LOGIN}. Given: none")
        case auth_exceptions.GoogleAuthError() | exceptions.Unauthenticated() | exceptions.Unauthorized():
            return CredentialsError(f"credentials: not accepted ({why(error)}); {_LOGIN}. Given: {where}")
        case exceptions.Forbidden():
            return BackendError(f"permission: refused ({why(error)}). Given: {where}")
        case exceptions.NotFound():
            return NotFoundError(f"Vertex AI: not found ({why(error)}). Given: {where}")
        case exceptions.Conflict():
            return AlreadyExistsError(f"Vertex AI: there already ({why(error)}). Given: {where}")
    return BackendError(f"Vertex AI refuses ({why(error)}). Given: {where}")


# Until an answer to one request, and until the work that it began is done.
_SECONDS, _WORK_SECONDS = 60.0, 120.0
_LOGGING = "LoggingServiceV2"
_PAGE = 1000


class VertexClient:
    """The services of Vertex AI at a place; each is connected when it is first asked.

    A service that fails for a while is asked again: for seconds at first, for minutes once it has answered anything.
    """

    def __init__(self, place: VertexLocation) -> None:
        self.place = place
        self._clients: dict[str, Any] = {}
        self._answered = False

    def ask(self, method: str, request: Any = None, *, again: bool = True, **fields: Any) -> Any:
        """Return the answer to a method of the API, such as PipelineService.get_pipeline_job.

        Without `again` it is asked once, where a second request could do twice what is to be done once.

        Raises:
            BackendError: it refuses, or does not answer.
        """
        return self._tried(method, lambda call: call(fields if request is None else request), again=again)

    def pages(self, method: str, **fields: Any) -> list[Any]:
        """Return all that a list of the API holds, over all its pages.

        Raises:
            BackendError: it refuses, or does not answer.
        """
        found: list[Any] = self._tried(method, lambda call: list(call({"parent": self.place.parent, **fields})))
        return found

    def entries(self, filtered: str) -> list[Any]:
        """Return the entries of Cloud Logging that a filter lets through, in the order of time.

        Raises:
            BackendError: Cloud Logging refuses, or does not answer.
        """
        project = f"projects/{self.place.project}"
        asked = {"resource_names": [project], "filter": filtered, "order_by": "timestamp asc", "page_size": _PAGE}
        found: list[Any] = self._tried(f"{_LOGGING}.list_log_entries", lambda call: list(call(asked)))
        return found

    def listed(self, method: str, **fields: Any) -> list[Any]:
        """Return all that a list of something else than a place holds, over all its pages.

        Raises:
            BackendError: it refuses, or does not answer.
        """
        found: list[Any] = self._tried(method, lambda call: list(call(fields)))
        return found

    def finish(self, method: str, *, seconds: float = _WORK_SECONDS, again: bool = True, **fields: Any) -> None:
        """Call a method whose work goes on after its answer, and wait so many seconds until that is done.

        Raises:
            BackendError: it refuses, or does not answer; or the work fails, or is not done in time.
        """
        operation = self.ask(method, again=again, **fields)
        with translate_errors(self.place):
            try:
                operation.result(timeout=seconds)
            except concurrent.futures.TimeoutError:
                raise UnavailableError(
                    f"{method}: not done within {seconds:g} s; it may be later. Given: {operation.operation.name}"
                ) from None

    def delete(self, method: str, name: str) -> None:
        """Delete what has a name, and wait until it is gone; what is gone already is deleted.

        Raises:
            BackendError: Vertex AI refuses, or does not answer.
        """
        # A request whose answer was lost is sent again, and finds nothing.
        with contextlib.suppress(NotFoundError):
            self.finish(method, name=name)

    def _tried(self, method: str, use: Callable[[Callable[..., Any]], Any], *, again: bool = True) -> Any:
        from qcnn.jobs.vertex.client import call_with_retries

        service, _, name = method.partition(".")
        with translate_errors(self.place):
            call = functools.partial(getattr(self._client(service), name), retry=None, timeout=_SECONDS)
            answer = call_with_retries(method, lambda: self._answered)(use, call) if again else use(call)
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
class Connection:
    """A project and a location; the variables are those of Google's own libraries, then gcloud's.

    Raises:
        ConfigError: one of these is malformed.
    """

    project: str = setting(
        "Google Cloud project.", variables=("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"), metavar="ID"
    )
    location: str = setting(
        "Region, such as us-central1.", variables=("GOOGLE_CLOUD_REGION", "CLOUDSDK_AI_REGION"), metavar="REGION"
    )
    api_endpoint: str = setting(
        "Another API endpoint, HOST[:PORT].", "", variables=(ENDPOINT_VARIABLE,), metavar="HOST"
    )

    def __post_init__(self) -> None:
        # It checks the three.
        _ = self.place

    @property
    def place(self) -> VertexLocation:
        """What requests are made of."""
        for name in ("project", "location", "api_endpoint"):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(f"{name}: must be text. Given: {getattr(self, name)!r}")
        return VertexLocation(self.project, self.location, self.api_endpoint)
