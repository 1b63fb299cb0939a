"""Start a process that measures, a peer's in its environment, and take what it reports."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_PEERS = _ROOT / ".venv-frameworks" / "bin" / "python"
_ELSEWHERE = ("tensorcircuit", "tensorcircuit_to_bound", "lightning")


def launch(module: str, *arguments: str, timeout: float | None = None) -> dict[str, Any]:
    """Run benchmarks.frameworks.MODULE and return what it reports.

    Raises:
        subprocess.TimeoutExpired: it takes longer than `timeout` seconds.
        subprocess.CalledProcessError: it fails; what it says goes to stderr.
    """
    python = str(_PEERS) if module in _ELSEWHERE else sys.executable
    if not Path(python).exists():
        raise SystemExit("The peers' environment is not there: make peers")
    return report_of([python, "-m", f"benchmarks.frameworks.{module}", *arguments], timeout)


def report_of(command: Sequence[str], timeout: float | None = None) -> dict[str, Any]:
    """Run a command and return the JSON of the last line that it prints; raises what `launch` does."""
    finished = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=timeout, check=False)
    if finished.returncode:
        sys.stderr.write(finished.stderr)
        finished.check_returncode()
    reported: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return reported
