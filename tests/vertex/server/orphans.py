"""Ends what the server has started if the process of the server is killed, which can then end nothing itself."""

import atexit
import subprocess
import sys
import threading

# Takes +GROUP and -GROUP, a line each; what is left when the pipe breaks is killed.
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
    """A process that waits for the end of this one; it knows process groups by their number."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def watch(self, group: int) -> None:
        """Let a process group end with this process."""
        self._tell(f"+{group}")

    def forget(self, group: int) -> None:
        """Leave a process group that has ended alone, whoever has its number next."""
        self._tell(f"-{group}")

    def _tell(self, line: str) -> None:
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
