"""Lookup of images in a registry, with a local server that answers as the OCI Distribution Specification says."""

import contextlib
import http.server
import threading
from collections.abc import Iterator

import pytest

from qcnn.errors import ConfigError
from qcnn.targets.checks import UnknownError
from qcnn.targets.registries import find_image, split_reference


class _Registry(http.server.BaseHTTPRequestHandler):
    """Registry with the public image `team/qcnn:1`, and private images below `private/`."""

    def do_HEAD(self) -> None:
        if "/private/" in self.path or self.headers["Authorization"] != "Bearer everyone":
            self.send_response(401)
            service = f"http://{self.headers['Host']}/token"
            self.send_header("WWW-Authenticate", f'Bearer realm="{service}",service="registry",scope="pull"')
        else:
            assert "application/vnd.oci.image.index.v1+json" in self.headers["Accept"]
            self.send_response(200 if self.path == "/v2/team/qcnn/manifests/1" else 404)
        self.end_headers()

    def do_GET(self) -> None:
        assert self.path == "/token?service=registry&scope=pull"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"token": "everyone"}')

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with contextlib.ExitStack() as stack:
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            yield f"127.0.0.1:{server.server_port}"


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("qcnn", ("docker.io", "library/qcnn", "latest")),
        ("team/qcnn:1", ("docker.io", "team/qcnn", "1")),
        ("localhost/qcnn:1", ("localhost", "qcnn", "1")),
        ("localhost:5000/team/qcnn", ("localhost:5000", "team/qcnn", "latest")),
        ("ghcr.io/a/b/c:2@sha256:12", ("ghcr.io", "a/b/c", "sha256:12")),
    ],
)
def test_reference_has_registry_path_and_version(reference: str, parts: tuple[str, str, str]) -> None:
    assert split_reference(reference) == parts


def test_public_image_is_found(registry: str) -> None:
    assert find_image("image", f"{registry}/team/qcnn:1") == f"{registry}/team/qcnn:1 is in {registry}"


def test_missing_image_fails(registry: str) -> None:
    with pytest.raises(ConfigError, match=r"^image: must be in its registry; .*\. Given: .*/team/qcnn:2$"):
        find_image("image", f"{registry}/team/qcnn:2")


def test_private_image_is_unknown(registry: str) -> None:
    with pytest.raises(UnknownError, match="answers with status 401; for a private image, pods may need pull_secrets"):
        find_image("image", f"{registry}/private/qcnn:1")


def test_registry_without_answer_is_unknown() -> None:
    with pytest.raises(UnknownError, match="does not answer from here"):
        find_image("image", "127.0.0.1:9/team/qcnn:1")
