"""What is reported of the steps that Kubeflow's local runner runs."""

import contextlib
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kfp import dsl, local
    from kfp.local import subprocess_task_handler

from qcnn.cli.local.runner_hooks import steps_reported
from qcnn.jobs.local.fork_client import ForkServer, fork_server


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """A fork server that is ready."""
    with fork_server(("colorsys",)) as server:
        while not server.is_ready:
            time.sleep(0.01)
        yield server


@dsl.component(base_image="python", install_kfp_package=False)
def told(code: int) -> str:
    """Say what surrounds a step, and end with an exit code."""
    import os
    import sys

    sys.stderr.write("of stderr\n")
    sys.stdout.write(f"{'colorsys' in sys.modules} {os.environ['_KFP_RUNTIME']} {sys.stdin.read()}\n")
    if code:
        sys.exit(code)
    return "well"


def _handler(task: Path, program: str) -> Any:
    """Return what the runner makes of a step, as it looks it up; the step is a program of the shell."""
    given = json.dumps({"inputs": {}, "outputs": {"outputFile": str(task / "executor_output.json")}})
    return subprocess_task_handler.SubprocessTaskHandler(
        image="python",
        full_command=["sh", "-c", program, "kfp.dsl.executor_main", "--executor_input", given],
        pipeline_root="",
        runner=local.SubprocessRunner(use_venv=False),
    )


@pytest.mark.parametrize(("program", "succeeded"), [("true", True), ("exit 3", False), ("kill -9 $$", False)])
def test_name_folder_and_end_of_a_step_are_reported_around_it(
    tmp_path: Path, server: ForkServer, program: str, succeeded: bool
) -> None:
    reported: list[object] = []
    run = tmp_path / "a run's folder"
    ran = tmp_path / "ran"
    with steps_reported(
        lambda *step: reported.append((*step, ran.exists())),
        lambda end: reported.append((end, ran.exists())),
        server,
        {},
    ):
        _handler(run / "train", f"touch '{ran}'; {program}").run()
    assert reported == [("train", run, False), (succeeded, True)]


def test_nothing_is_reported_any_more_when_the_run_has_ended(server: ForkServer) -> None:
    before = subprocess_task_handler.SubprocessTaskHandler
    with pytest.raises(KeyboardInterrupt), steps_reported(lambda *_: None, lambda _: None, server, {}):
        raise KeyboardInterrupt
    assert subprocess_task_handler.SubprocessTaskHandler is before


@pytest.mark.parametrize("forked", [True, False])
@pytest.mark.parametrize("code", [0, 3])
def test_a_step_is_forked_once_its_server_is_ready_and_does_the_same(
    tmp_path: Path, server: ForkServer, capfd: pytest.CaptureFixture[str], forked: bool, code: int
) -> None:
    class Loading(ForkServer):
        is_ready = forked

    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path))
    ended: list[bool] = []
    with (
        steps_reported(lambda *_: None, ended.append, Loading(server.pid, server._connection), {}),
        pytest.raises(RuntimeError) if code else contextlib.nullcontext(),
    ):
        assert told(code=code).output == "well"
    assert ended == [code == 0]
    output = capfd.readouterr().out
    assert f"    {forked} true \n" in output
    assert "    of stderr\n" in output
