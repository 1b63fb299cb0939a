"""Cleanup of the server's child processes if the server process is killed."""

import atexit
import subprocess
import sys
import threading

# Reads lines +GROUP and -GROUP. When the pipe is closed, the remaining process groups are killed.
_GUARD = """
import os, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, 9)
    except ProcessLookupError:
        pass
"""


class Guard:
    """Process that waits for the end of the current process and then kills the watched process groups."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def watch(self, group: int) -> None:
        """Kill a process group when the current process ends."""
        self._send(f"+{group}")

    def forget(self, group: int) -> None:
        """Stop watching a process group that has ended, because its ID can be reused."""
        self._send(f"-{group}")

    def _send(self, line: str) -> None:
        with self._lock:
            if not self._process:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _GUARD], stdin=subprocess.PIPE, text=True, start_new_session=True
                )
                atexit.register(self._process.communicate)
            assert self._process.stdin
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()


GUARD = Guard()
