"""A server in a separate process."""

import contextlib
import dataclasses
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import httpx

_ADDRESS = re.compile(r"serving on (http://\S+)")
_SECONDS = 120


@dataclasses.dataclass(frozen=True)
class ServerProcess:
    """Server that accepts requests.

    Attributes:
        process: Its process, with stderr as a pipe.
        url: Its address.
        lines: Log lines until it accepted requests.
    """

    process: subprocess.Popen[str]
    url: str
    lines: list[str]

    def client(self) -> httpx.Client:
        """Return a client of the server."""
        return httpx.Client(base_url=self.url, timeout=_SECONDS)

    def read_until(self, text: str) -> str:
        """Return the next log line that contains a text."""
        assert self.process.stderr
        for line in self.process.stderr:
            if text in line:
                return line
        raise AssertionError(f"the server has ended without {text}")

    def stop(self) -> tuple[int, str]:
        """Stop the server with SIGTERM, and return its exit code and the rest of its log."""
        self.process.send_signal(signal.SIGTERM)
        _, rest = self.process.communicate(timeout=_SECONDS)
        return self.process.returncode, rest


@contextlib.contextmanager
def running_server(*arguments: str) -> Iterator[ServerProcess]:
    """Context manager that runs `qcnn serve` on a free port."""
    command = [sys.executable, "-m", "qcnn.cli", "serve", "--port", "0", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            lines = []
            for line in process.stderr:
                lines.append(line)
                if match := _ADDRESS.search(line):
                    yield ServerProcess(process, match[1], lines)
                    break
            else:
                raise AssertionError("".join(lines))
        finally:
            process.kill()
