"""Run the process of a framework in its environment, and parse its result."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
# Environments beside .venv, with the commands that create them.
_COMMANDS = {"frameworks": "make frameworks", "tfq": "make setup EXTRA=tfq"}
# Environments of the modules that do not run in .venv.
_ENVIRONMENTS = {
    **dict.fromkeys(("tensorcircuit", "tensorcircuit_to_bound", "lightning", "pennylane_jax"), "frameworks"),
    "tutorial": "tfq",
}


def python_of(environment: str) -> str:
    """Return the path of the Python interpreter of `.venv-ENVIRONMENT`.

    Raises:
        SystemExit: If the environment does not exist.
    """
    python = _ROOT / f".venv-{environment}" / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"{python.parts[-3]} is missing. Run `{_COMMANDS[environment]}`.")
    return str(python)


def launch(
    module: str, *arguments: str, timeout: float | None = None, environment: str | None = None
) -> dict[str, Any]:
    """Run `benchmarks.frameworks.MODULE` and return its result.

    Args:
        module: Name of the module.
        *arguments: Arguments of its command line.
        timeout: Time limit in seconds.
        environment: Environment, if it is not that of the module.

    Raises:
        subprocess.TimeoutExpired: If the process exceeds the time limit.
        subprocess.CalledProcessError: If the process fails. Its stderr is printed.
        SystemExit: If the environment of the module does not exist.
    """
    environment = environment or _ENVIRONMENTS.get(module)
    python = python_of(environment) if environment else sys.executable
    return run_command([python, "-m", f"benchmarks.frameworks.{module}", *arguments], timeout)


def run_command(command: Sequence[str], timeout: float | None = None) -> dict[str, Any]:
    """Run a command and parse the last line of its output as JSON. Raises the exceptions of `launch`."""
    finished = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=timeout, check=False)
    if finished.returncode:
        sys.stderr.write(finished.stderr)
        finished.check_returncode()
    reported: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return reported
