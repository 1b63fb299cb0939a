"""Where on Vertex AI a command asks, and with what patience: the clients of its services."""

from __future__ import annotations

import concurrent.futures
import importlib
import os
from collections.abc import Callable
from typing import Any

import click

from cli.errors import UnavailableError
from cli.options.group import options_as
from cli.quiet import quiet
from cli.vertex.service.refusals import explained
from launchers.vertex.place import ENDPOINT_VARIABLE, Place, endpoint_of, logging_endpoint_of
from trainer.errors import ConfigError

# Seconds until an answer to one request, and until a service that fails or does not answer is given up.
_TIMEOUT = 60.0
_PATIENCE = 120.0

_AIPLATFORM = "google.cloud.aiplatform_v1"
_LOGGING = "google.cloud.logging_v2.services.logging_service_v2"


def _place(project: str | None, location: str | None, endpoint: str | None) -> Place:
    for name, value in (("project", project), ("location", location)):
        if not value:
            raise ConfigError(f"{name}: must be given, by --{name} or the environment. Given: none")
    return Place(project or "", location or "", endpoint or endpoint_of(os.environ))


# Gives a command the options that a `Place` is made of, and hands it `place`. The variables are those of Google's own
# libraries, then gcloud's.
place_options = options_as(
    "place",
    _place,
    click.option(
        "--project",
        envvar=["GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"],
        show_envvar=True,
        metavar="ID",
        help="Google Cloud project.",
    ),
    click.option(
        "--location",
        envvar=["GOOGLE_CLOUD_REGION", "CLOUDSDK_AI_REGION"],
        show_envvar=True,
        metavar="REGION",
        help="Region, such as us-central1.",
    ),
    click.option(
        "--api-endpoint",
        "endpoint",
        metavar="HOST",
        help=f"Another API endpoint, HOST[:PORT].  [env var: {ENDPOINT_VARIABLE}]",
    ),
)


class Vertex:
    """The services of Vertex AI at a place; each is connected when it is first asked."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._clients: dict[str, Any] = {}

    def ask(self, method: str, request: Any = None, *, again: bool = True, **fields: Any) -> Any:
        """Return the answer to a method of the API, such as PipelineService.get_pipeline_job.

        A service that fails for a while is asked `again`, unless that could do twice what was to be done once.

        Raises:
            BackendError: it refuses, or does not answer.
        """
        from google.api_core import exceptions
        from google.api_core.retry import Retry, if_exception_type

        # What a service answers while it is restarted, or when a connection breaks.
        transient = if_exception_type(
            exceptions.ServiceUnavailable,
            exceptions.DeadlineExceeded,
            exceptions.InternalServerError,
            exceptions.Aborted,
            exceptions.Unknown,
            exceptions.TooManyRequests,
        )
        service, _, name = method.partition(".")
        with explained(self.place):
            call: Callable[..., Any] = getattr(self._client(service), name)
            return call(
                request if request is not None else fields,
                retry=Retry(predicate=transient, timeout=_PATIENCE) if again else None,
                timeout=_TIMEOUT,
            )

    def finish(self, method: str, **fields: Any) -> None:
        """Call a method whose work goes on after its answer, and wait until that is done.

        Raises:
            BackendError: it refuses, or does not answer; or the work fails, or is not done in time.
        """
        operation = self.ask(method, **fields)
        with explained(self.place):
            try:
                operation.result(timeout=_PATIENCE)
            except concurrent.futures.TimeoutError:
                raise UnavailableError(f"{method}: not done in {_PATIENCE:g} s. Given: {fields}") from None

    def pages(self, method: str, **fields: Any) -> list[Any]:
        """Return all that a list of the API holds, over all its pages.

        Raises:
            BackendError: it refuses, or does not answer.
        """
        found = self.ask(method, parent=self.place.parent, **fields)
        with explained(self.place):
            return list(found)

    def entries(self, filtered: str) -> list[Any]:
        """Return the entries of Cloud Logging that a filter lets through, in the order of time.

        Raises:
            BackendError: Cloud Logging refuses, or does not answer.
        """
        found = self.ask(
            "LoggingServiceV2.list_log_entries",
            resource_names=[f"projects/{self.place.project}"],
            filter=filtered,
            order_by="timestamp asc",
            page_size=1000,
        )
        with explained(self.place):
            return list(found)

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            with quiet():
                from google.api_core.client_options import ClientOptions

                of_logs = service == "LoggingServiceV2"
                endpoint = logging_endpoint_of(os.environ) if of_logs else self.place.endpoint
                library = importlib.import_module(_LOGGING if of_logs else _AIPLATFORM)
                kind = getattr(library, f"{service}Client")
                self._clients[service] = kind(client_options=ClientOptions(api_endpoint=endpoint))
        return self._clients[service]
