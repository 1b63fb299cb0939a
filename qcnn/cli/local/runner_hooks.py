"""Reports each step that Kubeflow's local runner runs: its name, its run's folder, its end; forks it if it can."""

import contextlib
import io
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from kfp.dsl.component_factory import EXECUTOR_MODULE
from kfp.dsl.executor import Executor
from kfp.local import status, subprocess_task_handler

from qcnn.jobs.local.fork_client import ForkServer, start_process

# What the shell does first in the command of a step (kfp.dsl.component_factory, 2.13).
_SCRIPT = f"""program_path=$(mktemp -d)

printf "%s" "$0" > "$program_path/ephemeral_component.py"
_KFP_RUNTIME=true python3 -m {EXECUTOR_MODULE}"""
# The same, but nothing in the folder that the user runs from hides a library.
_OURS = _SCRIPT.replace("python3 -m", "python3 -m qcnn.run_module")
_PROGRAM = "ephemeral_component.py"


@contextlib.contextmanager
def steps_reported(
    begin: Callable[[str, Path], None],
    end: Callable[[bool], None],
    server: ForkServer,
    here: Mapping[str, Callable[..., Any]],
) -> Iterator[None]:
    """Have `begin` called with name and run's folder when a step begins, and `end` with whether it succeeded.

    The runner has no hook for that (kfp.local.task_dispatcher, 2.13), so its handler of subprocesses is replaced. A
    step whose turn comes once the server is ready is forked from it. A step that is named in `here` is no process: its
    function there is called, as the step's own would be.
    """

    class Handler(subprocess_task_handler.SubprocessTaskHandler):
        full_command: list[str]

        def run(self) -> status.Status:
            folder = _folder(self.full_command)
            begin(folder.name, folder.parent)
            if function := here.get(folder.name):
                ended = _status(_step_here(function, _given(self.full_command)))
            elif self._can_be_forked():
                _, _, _, program, *arguments = self.full_command
                ended = _status(_forked_step(program, arguments) == 0)
            else:
                self.full_command = [word.replace(_SCRIPT, _OURS) for word in self.full_command]
                ended = super().run()
            end(ended is status.Status.SUCCESS)
            return ended

        def _can_be_forked(self) -> bool:
            shell = ("sh", "-ec", _SCRIPT)
            begins = all(given.startswith(known) for given, known in zip(self.full_command, shell, strict=False))
            return begins and server.is_ready

    original = subprocess_task_handler.SubprocessTaskHandler
    subprocess_task_handler.SubprocessTaskHandler = Handler
    try:
        yield
    finally:
        subprocess_task_handler.SubprocessTaskHandler = original


def _folder(command: list[str]) -> Path:
    """Return the folder of a step, from what its executor is given (kfp.pipeline_spec, ExecutorInput)."""
    return Path(_given(command)["outputs"]["outputFile"]).parent


def _given(command: list[str]) -> dict[str, Any]:
    given: dict[str, Any] = json.loads(command[command.index("--executor_input") + 1])
    return given


def _status(succeeded: bool) -> status.Status:
    return status.Status.SUCCESS if succeeded else status.Status.FAILURE


class _Indented(io.TextIOBase):
    """Prints lines as the runner prints those of a step."""

    def __init__(self, output: TextIO) -> None:
        super().__init__()
        self._output = output
        self._partial = ""

    def write(self, text: str) -> int:
        """Print the lines that are whole."""
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            self._output.write(f"    {line}\n")
        return len(text)


def _step_here(function: Callable[..., Any], given: dict[str, Any]) -> bool:
    """Call the function of a step with what its executor is given; return whether it succeeded."""
    output = _Indented(sys.stdout)
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            Executor(executor_input=given, function_to_execute=function).execute()
        except SystemExit as ended:
            return not ended.code
        except Exception:
            traceback.print_exc()
            return False
    return True


def _forked_step(program: str, arguments: Sequence[str]) -> int:
    """Run a step as the shell would (`_SCRIPT`), and print its output as the runner does; return its exit code."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as its_end:
        path = Path(folder, _PROGRAM)
        path.write_text(program, encoding="utf-8")
        output, written = os.pipe()
        its_end.callback(os.close, written)
        with os.fdopen(output) as lines:
            step = start_process(
                (sys.executable, "-m", EXECUTOR_MODULE, "--component_module_path", str(path), *arguments),
                {**os.environ, "_KFP_RUNTIME": "true"},
                stdin=0,
                stdout=written,
                stderr=written,
            )
            its_end.close()
            for line in lines:
                # The runner has put one of its own in place of print, which indents.
                print(line, end="")  # noqa: T201
            print("\n")  # noqa: T201
            return step.wait()
