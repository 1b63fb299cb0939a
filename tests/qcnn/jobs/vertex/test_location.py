"""Where jobs run, and how a place that cannot be is refused."""

import pytest

from qcnn.errors import ConfigError
from qcnn.jobs.vertex.location import VertexLocation, endpoint_of, logging_endpoint_of


def test_google_answers_for_a_place_where_no_other_endpoint_is_named() -> None:
    place = VertexLocation("my-project", "europe-west4")
    assert place.endpoint == "europe-west4-aiplatform.googleapis.com"
    assert place.parent == "projects/my-project/locations/europe-west4"
    assert logging_endpoint_of({}) == "logging.googleapis.com"


@pytest.mark.parametrize("project", ["my-project", "123456789012", "example.com:my-project"])
@pytest.mark.parametrize("location", ["us-central1", "northamerica-northeast1"])
def test_projects_and_locations_as_google_names_them_are_taken(project: str, location: str) -> None:
    assert VertexLocation(project, location).parent == f"projects/{project}/locations/{location}"


@pytest.mark.parametrize("written", ["localhost:8443", "https://localhost:8443/", "https://localhost:8443"])
def test_another_endpoint_is_named_as_gcloud_takes_it(written: str) -> None:
    variables = {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": written,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": written,
    }
    assert VertexLocation("my-project", "us-central1", endpoint_of(variables)).endpoint == "localhost:8443"
    assert logging_endpoint_of(variables) == "localhost:8443"


@pytest.mark.parametrize(
    ("project", "location", "endpoint", "said"),
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
def test_a_malformed_place_is_one_line(project: str, location: str, endpoint: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        VertexLocation(project, location, endpoint)
