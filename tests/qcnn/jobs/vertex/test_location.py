"""Validation and endpoints of Vertex AI locations."""

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.vertex.location import VertexLocation, endpoint_of, logging_endpoint_of


def test_location_default_endpoint_is_that_of_google() -> None:
    place = VertexLocation("my-project", "europe-west4")
    assert place.endpoint == "europe-west4-aiplatform.googleapis.com"
    assert place.parent == "projects/my-project/locations/europe-west4"
    assert logging_endpoint_of({}) == "logging.googleapis.com"


@pytest.mark.parametrize("project", ["my-project", "123456789012", "example.com:my-project"])
@pytest.mark.parametrize("location", ["us-central1", "northamerica-northeast1"])
def test_location_accepts_valid_projects_and_regions(project: str, location: str) -> None:
    assert VertexLocation(project, location).parent == f"projects/{project}/locations/{location}"


@pytest.mark.parametrize("endpoint", ["localhost:8443", "https://localhost:8443/", "https://localhost:8443"])
def test_location_endpoint_is_read_from_gcloud_variables(endpoint: str) -> None:
    variables = {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": endpoint,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": endpoint,
    }
    assert VertexLocation("my-project", "us-central1", endpoint_of(variables)).endpoint == "localhost:8443"
    assert logging_endpoint_of(variables) == "localhost:8443"


@pytest.mark.parametrize(
    ("project", "location", "endpoint", "message"),
    [
        ("My Project", "us-central1", "", r"^project: must be a project's id .* or its number\. Given: 'My Project'$"),
        ("", "us-central1", "", r"^project: must be .* Given: ''$"),
        (
            "my-project",
            "us-central1-a",
            "",
            r"^location: must be a region such as us-central1\. Given: 'us-central1-a'$",
        ),
        ("my-project", "Iowa", "", r"^location: must be a region such as us-central1\. Given: 'Iowa'$"),
        ("my-project", "us-central1", "http://a/b", r"^API endpoint: must be HOST or HOST:PORT\. Given: 'http://a/b'$"),
    ],
)
def test_location_malformed_value_raises(project: str, location: str, endpoint: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        VertexLocation(project, location, endpoint)
