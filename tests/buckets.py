"""Buckets of local servers for Cloud Storage, at STORAGE_EMULATOR_HOST, and S3."""

import contextlib
import secrets
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import requests

_SECONDS = 60
# Conditions of a request, by their names in a WSGI environment.
_CONDITIONS = {"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"}
# Data file with one feature and two classes.
ROWS = b"x,label\n" + b"".join(b"%.3f,%d\n" % (number / 40, number % 2) for number in range(40))


@contextlib.contextmanager
def new_bucket(server: str) -> Iterator[str]:
    """Context manager that creates a bucket, yields its name, and deletes it with its objects."""
    buckets, name = f"{server}/storage/v1/b", f"qcnn-{secrets.token_hex(6)}"
    requests.post(f"{buckets}?project=test", json={"name": name}, timeout=_SECONDS).raise_for_status()
    try:
        yield name
    finally:
        # Pods that are being stopped still write and delete objects, and a bucket with objects is not deleted.
        while not _deleted(f"{buckets}/{name}", unless=HTTPStatus.PRECONDITION_FAILED):
            for key in _objects(f"{buckets}/{name}/o"):
                _deleted(f"{buckets}/{name}/o/{urllib.parse.quote(key, safe='')}", unless=HTTPStatus.NOT_FOUND)


def _deleted(address: str, *, unless: HTTPStatus) -> bool:
    answer = requests.delete(address, timeout=_SECONDS)
    if answer.status_code == unless:
        return False
    answer.raise_for_status()
    return True


def _objects(address: str) -> list[str]:
    answer = requests.get(address, timeout=_SECONDS)
    answer.raise_for_status()
    return [item["name"] for item in answer.json().get("items", ())]


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """Context manager that runs an S3-compatible server and yields its URL."""
    # Takes a second to load.
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    assert server._server
    server._server.app = _with_atomic_conditions(server._server.app)
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def _with_atomic_conditions(application: Callable[..., Any]) -> Callable[..., Any]:
    """Return an application that handles one conditional request at a time.

    Moto checks a condition and writes in two steps, so that several writers could win, other than on S3.
    """
    lock = threading.Lock()

    def handle(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        is_conditional = not _CONDITIONS.isdisjoint(environ)
        with lock if is_conditional else contextlib.nullcontext():
            return application(environ, start_response)

    return handle


def new_s3_bucket(server: str) -> str:
    """Create a bucket on the test server and return its name."""
    import boto3

    name = f"qcnn-{secrets.token_hex(6)}"
    boto3.client("s3", endpoint_url=server, region_name="us-east-1").create_bucket(Bucket=name)
    return name
