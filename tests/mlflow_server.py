"""MLflow server of `make test-long`, and servers that fail, for tests."""

import contextlib
import os
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_MLFLOW = ROOT / ".venv-mlflow" / "bin" / "mlflow"
_START_SECONDS = 300.0


@contextlib.contextmanager
def mlflow_server(folder: Path, port: int = 0, host: str = "127.0.0.1") -> Iterator[str]:
    """Context manager that yields the URL of an MLflow server with an SQLite database in a folder.

    Args:
        folder: Folder of the database and the artifacts. A later server of the same folder has their content.
        port: Port. 0: any free port.
        host: Address of this machine at which the server listens.
    """
    if not _MLFLOW.exists():
        pytest.skip("no .venv-mlflow, which make test-long creates")
    port = port or free_port()
    command = [str(_MLFLOW), "server", "--host", host, "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder)]
    # Jobs, which the tests do not use, take nine processes.
    unused = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment = {**os.environ, **unused}
    environment.pop("MLFLOW_TRACKING_URI", None)
    with (folder / "server.log").open("ab") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        url, end = f"http://{host}:{port}", time.monotonic() + _START_SECONDS
        while not _responds(url):
            assert server.poll() is None, (folder / "server.log").read_text()
            assert time.monotonic() < end
            time.sleep(0.1)
        yield url
    finally:
        # With its workers.
        os.killpg(server.pid, 15)
        server.wait()


def _responds(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=10) as response:
        return bool(response.status == 200)
    return False


def free_port() -> int:
    """Return a port that no process listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """Context manager that yields the URL of a server that accepts connections and never responds."""
    accepted: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted.append(listener.accept()[0])

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    for connection in accepted:
        connection.close()
