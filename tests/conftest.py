"""What tests of every room share."""

import contextlib
import gc
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import buckets
from tests.qcnn.jobs.apiserver import ApiServer

pytest_plugins = ["tests.small_trainings", "tests.forks"]

if TYPE_CHECKING:
    from tests.vertex.server.vertex import Vertex
    from tests.watched import Watched


def pytest_configure() -> None:
    """Let processes of tests receive SIGINT: a shell that runs the tests in the background has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look through what is loaded for the tests for no garbage, now and later: it stays, and is a lot."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What a library has told this process to show of TensorFlow's log is not told to those that it starts.

    Not by a fixture: those of a module, which start processes too, come before one of a test.
    """
    # jax does where it is loaded, and TensorFlow loads it where it is installed.
    os.environ.pop("TF_CPP_MIN_LOG_LEVEL", None)


@pytest.fixture(autouse=True)
def _no_lines_of_steps() -> None:
    """What a step that ran in this process before set up to show its log lines is gone."""
    logger = logging.getLogger("qcnn")
    logger.handlers.clear()
    logger.propagate = True


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What is started takes SIGINT as on a terminal; a shell's background ignores it, and so do all its children."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.fixture
def api_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ApiServer]:
    """The API server of the cluster of KUBECONFIG, which keeps its objects in memory."""
    with contextlib.closing(ApiServer()) as server:
        # As deploy/rbac.yaml makes it.
        server.put("serviceaccounts", {"metadata": {"name": "qcnn-worker"}})
        monkeypatch.setenv("KUBECONFIG", server.write_kubeconfig(tmp_path / "kubeconfig"))
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The URL of a server that speaks like S3."""
    with buckets.s3_server() as url:
        yield url


@pytest.fixture
def rows(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a file in a bucket, which holds ROWS."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    address = f"s3://{buckets.new_s3_bucket(s3_server)}/rows.csv"
    # Storage loads clients of buckets, which most tests do not need.
    from qcnn.storage.copies import new_file_copy

    with new_file_copy(address) as path:
        path.write_bytes(buckets.ROWS)
    return address


@pytest.fixture(scope="session")
def watched_training(tmp_path_factory: pytest.TempPathFactory) -> "Watched":
    """A real training with metrics and a log as JSON, which was told to end."""
    # What reads metrics is loaded where it is needed.
    from tests.watched import watched

    return watched(tmp_path_factory.mktemp("watched"))


@pytest.fixture
def vertex(tmp_path: Path) -> "Iterator[Vertex]":
    """A Vertex AI with a bucket, on this machine."""
    # Google's libraries take seconds to load, and most tests need none.
    from tests.vertex.server.vertex import Vertex

    with contextlib.closing(Vertex(tmp_path)) as server:
        yield server
