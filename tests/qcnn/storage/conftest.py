"""Buckets on local S3 and Cloud Storage servers, directly and through a faulty proxy."""

import contextlib
import os
from collections.abc import Callable, Iterator

import pytest

from qcnn.process.local_ports import reserved_ports
from qcnn.storage.store import SCHEMES, Store
from qcnn.testing.stores import opened
from tests.buckets import new_bucket, new_s3_bucket
from tests.qcnn.storage.faults import FaultyProxy

# A registered store needs a server here, which its tests use. Several schemes of a store have one server.
_SCHEMES = sorted({line: scheme for scheme, line in SCHEMES.items() if scheme != "minio"}.values())


@pytest.fixture(params=_SCHEMES)
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return a URI scheme and the URL of a server for it."""
    if request.param == "gs":
        if not (url := os.environ.get("STORAGE_EMULATOR_HOST")):
            pytest.skip("STORAGE_EMULATOR_HOST is not set: no Cloud Storage server")
        return "gs", url
    assert request.param == "s3", "no server"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    return "s3", str(request.getfixturevalue("s3_server"))


@pytest.fixture
def proxy(server: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """Proxy to the server, configured as the server of the code under test."""
    scheme, url = server
    with contextlib.closing(FaultyProxy(url)) as proxy:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST" if scheme == "gs" else "AWS_ENDPOINT_URL", proxy.url)
        yield proxy


@pytest.fixture
def bucket(server: tuple[str, str], proxy: FaultyProxy) -> Iterator[str]:
    """URI of a new bucket, which is deleted with its content after the test."""
    scheme, url = server
    if scheme == "gs":
        with new_bucket(url) as name:
            yield f"gs://{name}"
        return
    yield f"s3://{new_s3_bucket(url)}"


@pytest.fixture
def unused_port() -> Iterator[int]:
    """Local port without a server."""
    with reserved_ports(1) as (port,):
        yield port


@pytest.fixture
def opens() -> Iterator[Callable[[str], Store]]:
    """Function that opens the store of a URI, which is closed after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda uri: stack.enter_context(opened(uri))
