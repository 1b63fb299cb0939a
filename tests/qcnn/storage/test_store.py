"""Parsed bucket URIs and the reasons of failed requests."""

import json

import pytest
import requests
import urllib3
from botocore.exceptions import ClientError, EndpointConnectionError
from google.api_core import exceptions

from qcnn.errors import ConfigError
from qcnn.storage.store import parse_bucket_uri, reason_of

URL = f"http://10.244.0.1:4443/storage/v1/b/bucket/o?prefix={'trainings%2F' * 30}"
REFUSED = urllib3.exceptions.NewConnectionError(
    urllib3.connection.HTTPConnection("10.244.0.1", 4443),
    "Failed to establish a new connection: [Errno 111] Connection refused",
)
# Response of Cloud Storage to an upload, and the text that its library appends.
BODY = {
    "error": {
        "code": 403,
        "message": "me@project does not have storage.objects.create access",
        "errors": [{"message": "me@project does not have storage.objects.create access", "domain": "global"}] * 9,
    }
}
FAILED = "('Request failed with status code', 403, 'Expected one of', <HTTPStatus.OK: 200>)"
GONE = requests.ConnectionError(
    urllib3.exceptions.MaxRetryError(urllib3.HTTPConnectionPool("10.244.0.1", 4443), URL, REFUSED)
)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            exceptions.RetryError("Timeout of 120.0s exceeded, last exception: ...", cause=GONE),
            "Failed to establish a new connection: [Errno 111] Connection refused",
        ),
        (
            exceptions.ServiceUnavailable(f"GET {URL}: We encountered an internal error."),
            "We encountered an internal error.",
        ),
        (
            exceptions.Forbidden(f"POST {URL}: {json.dumps(BODY, indent=2)}: {FAILED}"),
            "me@project does not have storage.objects.create access",
        ),
        (exceptions.from_http_status(507, f"POST {URL}: {FAILED}"), "status 403"),
        (exceptions.from_http_status(507, f'PUT {URL}: {{"error": "full"}}: {FAILED}'), '{"error": "full"}'),
        (exceptions.Forbidden(f"POST {URL}: me@project has no\naccess"), "me@project has no access"),
        (EndpointConnectionError(endpoint_url="http://a/b"), 'Could not connect to the endpoint URL: "http://a/b"'),
        (
            ClientError({"Error": {"Code": "503"}}, "PutObject"),
            "An error occurred (503) when calling the PutObject operation: Unknown",
        ),
        (ConnectionResetError(), "ConnectionResetError"),
        (OSError("word " * 100), f"{'word ' * 39}..."),
    ],
)
def test_reason_of_library_error_is_one_short_line(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason


@pytest.mark.parametrize("local", ["runs/a", "/runs/a", ".", "gs:/bucket", "C:\\runs"])
def test_parse_bucket_uri_of_path_is_none(local: str) -> None:
    assert parse_bucket_uri(local) is None


@pytest.mark.parametrize("uri", ["gs://", "gs:///folder", "http://bucket/folder", "S3://bucket", "://bucket"])
def test_parse_bucket_uri_invalid_is_config_error(uri: str) -> None:
    with pytest.raises(ConfigError, match=rf"^uri: must be a local folder or gs://BUCKET.* Given: {uri}$"):
        parse_bucket_uri(uri)
