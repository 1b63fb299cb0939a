"""Fixtures and hooks for the tests of all packages."""

import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import buckets
from tests.qcnn.jobs.apiserver import ApiServer

pytest_plugins = ["tests.shared_training_runs", "tests.forks", "tests.durations"]

if TYPE_CHECKING:
    from tests.monitored_process import Watched
    from tests.vertex.fake_service.vertex import Vertex


def pytest_configure() -> None:
    """Restore the default SIGINT handler, which a shell disables for background processes."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Exclude all objects that are loaded during collection from garbage collection, because they are never freed."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _freeze_objects() -> Iterator[None]:
    """Exclude the objects that exist after a file from garbage collection: libraries, programs and caches.

    Otherwise each collection, such as that of a command with an error, takes a second in a process with TensorFlow.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Remove TensorFlow's log level from the environment, so that child processes do not inherit it.

    This is a hook, because a fixture would run after module fixtures, which start processes, too.
    """
    # jax sets it at import, and TensorFlow imports jax if it is installed.
    os.environ.pop("TF_CPP_MIN_LOG_LEVEL", None)


@pytest.fixture(autouse=True)
def _reset_logging() -> None:
    """Remove log handlers that a pipeline step has added in this process."""
    logger = logging.getLogger("qcnn")
    logger.handlers.clear()
    logger.propagate = True


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let child processes receive SIGINT, which background processes of a shell inherit as ignored."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.fixture
def api_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ApiServer]:
    """Kubernetes API server for KUBECONFIG that stores its objects in memory."""
    with contextlib.closing(ApiServer()) as server:
        # Created by deploy/rbac.yaml.
        server.put("serviceaccounts", {"metadata": {"name": "qcnn-worker"}})
        monkeypatch.setenv("KUBECONFIG", server.write_kubeconfig(tmp_path / "kubeconfig"))
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """URL of an S3-compatible server."""
    with buckets.s3_server() as url:
        yield url


@pytest.fixture
def rows(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """URI of a file in a bucket with the content ROWS."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    uri = f"s3://{buckets.new_s3_bucket(s3_server)}/rows.csv"
    # Loads storage clients, which most tests do not need.
    from qcnn.storage.copies import new_file_copy

    with new_file_copy(uri) as path:
        path.write_bytes(buckets.ROWS)
    return uri


@pytest.fixture(scope="session")
def watched_training(tmp_path_factory: pytest.TempPathFactory, fork_variables: Mapping[str, str]) -> "Watched":
    """Output and metrics of a training process with JSON logs that received SIGTERM."""
    # Loads the parser of metrics, which most tests do not need.
    from tests.monitored_process import watched

    return watched(tmp_path_factory.mktemp("watched"), fork_variables)


@pytest.fixture
def vertex(tmp_path: Path, forks: None) -> "Iterator[Vertex]":
    """Local Vertex AI server with a bucket. Its processes of Python modules are forked."""
    # Google's libraries take seconds to load, and most tests do not need them.
    from tests.vertex.fake_service.vertex import Vertex

    with contextlib.closing(Vertex(tmp_path)) as server:
        yield server
        # pytest prints this if the test has failed.
        sys.stdout.write("\n".join(server.failures()))
