"""Buckets of servers that speak like S3 and Google Cloud Storage, straight and through a faulty proxy."""

import contextlib
import os
import socket
from collections.abc import Callable, Iterator

import pytest

from qcnn.storage.store import Store, parse_bucket_uri
from qcnn.storage.sync import open_store
from tests.buckets import new_bucket, new_s3_bucket
from tests.qcnn.storage.faults import FaultyProxy


def opened(address: str) -> contextlib.closing[Store]:
    """Return the store at an address, to be closed."""
    place = parse_bucket_uri(address)
    assert place
    return contextlib.closing(open_store(place))


@pytest.fixture(params=["s3", "gs"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return the scheme of a kind of address, and the URL of a server for it."""
    if request.param == "gs":
        if not (url := os.environ.get("STORAGE_EMULATOR_HOST")):
            pytest.skip("STORAGE_EMULATOR_HOST is not set: no Cloud Storage server")
        return "gs", url
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    return "s3", str(request.getfixturevalue("s3_server"))


@pytest.fixture
def proxy(server: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """The only way to the server that the code under test knows."""
    scheme, url = server
    with contextlib.closing(FaultyProxy(url)) as proxy:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST" if scheme == "gs" else "AWS_ENDPOINT_URL", proxy.url)
        yield proxy


@pytest.fixture
def bucket(server: tuple[str, str], proxy: FaultyProxy) -> Iterator[str]:
    """The address of a new bucket, which is deleted with all that is in it."""
    scheme, url = server
    if scheme == "gs":
        with new_bucket(url) as name:
            yield f"gs://{name}"
        return
    yield f"s3://{new_s3_bucket(url)}"


@pytest.fixture
def unused_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def opens() -> Iterator[Callable[[str], Store]]:
    """Opens the store at an address; all are closed in the end."""
    with contextlib.ExitStack() as stack:
        yield lambda address: stack.enter_context(opened(address))
