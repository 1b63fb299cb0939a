"""Run a module in a process that is forked from the fork server of the tests: python -m tests.forked_module MODULE ...

For commands of a shell script, which cannot use `tests.forks.run`. Without a fork server, the module runs here.
"""

import json
import os
import runpy
import signal
import sys
from collections.abc import Iterable

from qcnn.jobs.local.fork_client import start_process
from qcnn.jobs.local.fork_protocol import VARIABLE

# Environment variable of this module: other variables and their values in the test process, as JSON.
_OF_TESTS = "TESTS_FORK_VARIABLES"


def variables(replaced: Iterable[str]) -> dict[str, str]:
    """Return environment variables with which this module finds the fork server of the test process.

    Args:
        replaced: Variables with other values in the environment of this module than in that of the fork server.
    """
    if VARIABLE not in os.environ:
        return {}
    return {_OF_TESTS: json.dumps({name: os.environ.get(name) for name in (VARIABLE, *replaced)})}


def main() -> None:
    """Run the module of the command line and exit with its exit code. SIGTERM is forwarded."""
    del sys.argv[0]
    of_tests = json.loads(os.environ.pop(_OF_TESTS, "{}"))
    if not of_tests:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        return
    address = of_tests.pop(VARIABLE)
    environment = {name: value for name, value in {**os.environ, **of_tests}.items() if value is not None}
    process = start_process(
        (sys.executable, "-m", *sys.argv), environment, stdin=0, stdout=1, stderr=2, address=address
    )
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    code = process.wait()
    # A shell reports a signal as exit code 128 + signal.
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
