"""Kubeflow Model Registries that do not respond, or are none, as errors in one line."""

import contextlib
import importlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from qcnn.registry import kubeflow_client
from qcnn.registry.kubeflow_address import TOKEN_VARIABLE
from tests.mlflow_server import free_port, silent_server
from tests.qcnn.cli.conftest import Typed


@pytest.fixture(scope="module", autouse=True)
def _client() -> None:
    """Import the client, which takes half a second, before the processes of the commands are forked."""
    importlib.import_module("mr_openapi")


_OTHER = "must be the URL of a Kubeflow Model Registry"


@pytest.mark.parametrize("arguments", [("models",), ("promote", "a"), ("serve", "a@champion"), ("predict", "a@1")])
def test_server_that_is_away_is_one_line(typed: Typed, arguments: tuple[str, ...]) -> None:
    address = f"kubeflow:http://127.0.0.1:{free_port()}"
    more = ("--data", "rows.csv") if arguments[0] == "predict" else ()
    line = f"error: registry: the connection is refused. Given: {address}\n"
    assert typed(*arguments, *more, "--registry", f"{address}#models") == (2, "", line)


def test_server_that_does_not_respond_is_one_line(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeflow_client, "_TIMEOUT", 0.5)
    with silent_server() as url:
        found = typed("models", "--registry", f"kubeflow:{url}")
    assert found == (2, "", f"error: registry: no response in 0.5 s. Given: kubeflow:{url}\n")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file or directory"), (b"planted\nHost: other", "it is not one word"), (b"\xff", "it is no text")],
)
def test_file_without_token_is_one_line(
    typed: Typed, content: bytes | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv(TOKEN_VARIABLE, str(path))
    line = f"error: {TOKEN_VARIABLE}: must be the path of a token ({reason}). Given: {path}\n"
    assert typed("models", "--registry", "kubeflow:http://127.0.0.1:1") == (2, "", line)


@contextlib.contextmanager
def _other_server(status: int, content_type: str, body: bytes) -> Iterator[str]:
    """Context manager that yields the URL of a server with one response."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "content_type", "body", "reason"),
    [
        (404, "text/plain", b"404 page not found", _OTHER),
        (200, "text/html", b"<html>log in</html>", _OTHER),
        (200, "application/json", b"[1]", _OTHER),
        (200, "application/json", b"{", _OTHER),
        (503, "text/plain", b"no database\nhere", "Service Unavailable (status 503)"),
        (401, "application/json", b'{"code": "1", "message": "no token"}', "no token (status 401)"),
    ],
)
def test_other_server_is_one_line(typed: Typed, status: int, content_type: str, body: bytes, reason: str) -> None:
    with _other_server(status, content_type, body) as url:
        found = typed("models", "--registry", f"kubeflow:{url}")
    assert found == (2, "", f"error: registry: {reason}. Given: kubeflow:{url}\n")
