"""A step of a run as a process of its own: python -m qcnn.components.local_process STEP FOLDER...."""

import contextlib
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

from qcnn.components.local_steps import Step, make_best, make_evaluation, make_export
from qcnn.jobs.local.fork_client import Started, start_process
from qcnn.jobs.local.processes import GRACE
from qcnn.results.local_run import RunFolders
from qcnn.startup import ending_at_once, one_line_errors, terminated_as_interrupt

_STEPS = {step.__name__: step for step in (make_export, make_evaluation, make_best)}
_INTERRUPTED = 130


def apart(step: Step, folders: RunFolders) -> None:
    """Call a step in a process of its own, and print what that prints.

    Raises:
        SystemExit: it did not end well, and has printed why.
    """
    output, written = os.pipe()
    with os.fdopen(output, encoding="utf-8", errors="replace") as lines:
        try:
            places = [str(getattr(folders, field.name)) for field in dataclasses.fields(folders)]
            argv = (sys.executable, "-m", "qcnn.components.local_process", step.__name__, *places)
            started = start_process(argv, os.environ, stdin=0, stdout=written, stderr=written)
        finally:
            os.close(written)
        try:
            for line in lines:
                sys.stdout.write(line)
            code = started.wait()
        except BaseException:
            _end(started)
            raise
    if code:
        raise SystemExit(code)


def _end(started: Started) -> None:
    started.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        started.wait(GRACE)
    started.kill()
    started.wait()


def main() -> None:
    """Call the step that the arguments name."""
    name, *places = sys.argv[1:]
    with ending_at_once():
        try:
            with terminated_as_interrupt(), one_line_errors():
                _STEPS[name](RunFolders(*map(Path, places)))
        except KeyboardInterrupt:
            # Whoever ends this process says so.
            sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
