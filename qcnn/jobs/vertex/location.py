"""Vertex AI location of a job (project, location, API endpoint), console pages and job states."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qcnn.errors import ConfigError

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CustomJob, HyperparameterTuningJob


# gcloud's variables for other endpoints ("gcloud topic configurations", api_endpoint_overrides).
ENDPOINT_VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"
LOGGING_ENDPOINT_VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING"

# A project ID, optionally with a domain, or a project number
# (cloud.google.com/resource-manager/docs/creating-managing-projects).
_PROJECT = re.compile(r"(?:[a-z0-9.-]+\.[a-z]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]|[1-9][0-9]*")
_LOCATION = re.compile(r"[a-z]+(?:-[a-z]+)+[0-9]+")
_ENDPOINT = re.compile(r"[A-Za-z0-9.-]+(?::[0-9]{1,5})?")


@dataclasses.dataclass(frozen=True)
class VertexLocation:
    """Project and location on Vertex AI.

    `endpoint` is HOST[:PORT] of the API, by default Google's endpoint for the location.

    Raises:
        ConfigError: If project, location or endpoint is malformed.
    """

    project: str
    location: str
    endpoint: str = ""

    def __post_init__(self) -> None:
        for name, pattern, allowed in (
            ("project", _PROJECT, "a project's id (6 to 30 lowercase letters, digits and hyphens) or its number"),
            ("location", _LOCATION, "a region such as us-central1"),
        ):
            if not pattern.fullmatch(getattr(self, name)):
                raise ConfigError(f"{name}: must be {allowed}. Given: {getattr(self, name)!r}")
        endpoint = host(self.endpoint) or f"{self.location}-aiplatform.googleapis.com"
        object.__setattr__(self, "endpoint", endpoint)

    @property
    def parent(self) -> str:
        """The resource name of the location, with which the names of its resources begin."""
        return f"projects/{self.project}/locations/{self.location}"

    @property
    def title(self) -> str:
        """Project and location in messages."""
        return f"{self.project} in {self.location}"


def endpoint_of(environment: Mapping[str, str]) -> str:
    """Return the API endpoint from the environment, or an empty string for Google's endpoint."""
    return environment.get(ENDPOINT_VARIABLE, "")


def logging_endpoint_of(environment: Mapping[str, str]) -> str:
    """Return HOST[:PORT] of Cloud Logging from the environment, by default Google's endpoint.

    Raises:
        ConfigError: If the endpoint in the environment is malformed.
    """
    return host(environment.get(LOGGING_ENDPOINT_VARIABLE, "")) or "logging.googleapis.com"


def host(endpoint: str) -> str:
    """Return HOST[:PORT] of an endpoint, which may be a URL https://HOST[:PORT]/ as in gcloud.

    Raises:
        ConfigError: If the endpoint has another form.
    """
    address = endpoint.removeprefix("https://").removesuffix("/")
    if address and not _ENDPOINT.fullmatch(address):
        raise ConfigError(f"API endpoint: must be HOST or HOST:PORT. Given: {endpoint!r}")
    return address


_CONSOLE = "https://console.cloud.google.com"


def run_page(place: VertexLocation, run: str) -> str:
    """Return the URL of the console page of a pipeline job."""
    return f"{_CONSOLE}/vertex-ai/locations/{place.location}/pipelines/runs/{run}?project={place.project}"


def schedule_page(place: VertexLocation, schedule: str) -> str:
    """Return the URL of the console page of a schedule."""
    return f"{_CONSOLE}/vertex-ai/locations/{place.location}/pipelines/schedules/{schedule}?project={place.project}"


def job_page(place: VertexLocation, job: str) -> str:
    """Return the URL of the console page of a custom job."""
    return f"{_CONSOLE}/agent-platform/locations/{place.location}/training/{job}?project={place.project}"


def endpoint_page(place: VertexLocation, endpoint: str) -> str:
    """Return the URL of the console page of an endpoint."""
    return f"{_CONSOLE}/vertex-ai/locations/{place.location}/endpoints/{endpoint}?project={place.project}"


def tensorboard_page(tensorboard: str, job: str) -> str:
    """Return the URL of a custom job in a managed TensorBoard.

    Args:
        tensorboard: Resource name of the TensorBoard, such as projects/.../123.
        job: ID of the custom job.
    """
    location = tensorboard.split("/")[3]
    name = f"{tensorboard}/experiments/{job}".replace("/", "+")
    return f"https://{location}.tensorboard.googleusercontent.com/experiment/{name}"


ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED")


def state_of(job: CustomJob | HyperparameterTuningJob) -> str:
    """Return the state of a job without its prefix JOB_STATE_."""
    return str(job.state.name).removeprefix("JOB_STATE_")


def creation_time(resource: Any) -> datetime.datetime:
    """Return the creation time of a resource, or 1970 if the service does not return it."""
    time: datetime.datetime | None = resource.create_time
    return time or datetime.datetime.fromtimestamp(0, datetime.UTC)
