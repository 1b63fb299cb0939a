"""Reports each step that Kubeflow's local runner runs: its name, its run's folder, its end."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from kfp.local import status, subprocess_task_handler


@contextlib.contextmanager
def steps_reported(begin: Callable[[str, Path], None], end: Callable[[bool], None]) -> Iterator[None]:
    """Have `begin` called with name and run's folder when a step begins, and `end` with whether it succeeded.

    The runner has no hook for that (kfp.local.task_dispatcher, 2.13), so its handler of subprocesses is replaced.
    """

    class Handler(subprocess_task_handler.SubprocessTaskHandler):
        def run(self) -> status.Status:
            folder = _folder(self.full_command)
            begin(folder.name, folder.parent)
            ended: status.Status = super().run()
            end(ended is status.Status.SUCCESS)
            return ended

    original = subprocess_task_handler.SubprocessTaskHandler
    subprocess_task_handler.SubprocessTaskHandler = Handler
    try:
        yield
    finally:
        subprocess_task_handler.SubprocessTaskHandler = original


def _folder(command: list[str]) -> Path:
    """Return the folder of a step, from what its executor is given (kfp.pipeline_spec, ExecutorInput)."""
    given = json.loads(command[command.index("--executor_input") + 1])
    return Path(given["outputs"]["outputFile"]).parent
