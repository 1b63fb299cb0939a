"""Run the process of a framework in its environment, and parse its result."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_FRAMEWORKS_PYTHON = _ROOT / ".venv-frameworks" / "bin" / "python"
_IN_FRAMEWORKS_ENVIRONMENT = ("tensorcircuit", "tensorcircuit_to_bound", "lightning")


def launch(module: str, *arguments: str, timeout: float | None = None) -> dict[str, Any]:
    """Run `benchmarks.frameworks.MODULE` and return its result.

    Args:
        module: Name of the module.
        *arguments: Arguments of its command line.
        timeout: Time limit in seconds.

    Raises:
        subprocess.TimeoutExpired: If the process exceeds the time limit.
        subprocess.CalledProcessError: If the process fails. Its stderr is printed.
    """
    python = str(_FRAMEWORKS_PYTHON) if module in _IN_FRAMEWORKS_ENVIRONMENT else sys.executable
    if not Path(python).exists():
        raise SystemExit(".venv-frameworks is missing. Run `make frameworks`.")
    return run_command([python, "-m", f"benchmarks.frameworks.{module}", *arguments], timeout)


def run_command(command: Sequence[str], timeout: float | None = None) -> dict[str, Any]:
    """Run a command and parse the last line of its output as JSON. Raises the exceptions of `launch`."""
    finished = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=timeout, check=False)
    if finished.returncode:
        sys.stderr.write(finished.stderr)
        finished.check_returncode()
    reported: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return reported
