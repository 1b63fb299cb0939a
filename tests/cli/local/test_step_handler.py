"""What is reported of the steps that Kubeflow's local runner runs."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kfp import local
    from kfp.local import subprocess_task_handler

from cli.local.step_handler import steps_reported


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
def test_name_folder_and_end_of_a_step_are_reported_around_it(tmp_path: Path, program: str, succeeded: bool) -> None:
    told: list[object] = []
    run = tmp_path / "a run's folder"
    ran = tmp_path / "ran"
    with steps_reported(lambda *step: told.append((*step, ran.exists())), lambda end: told.append((end, ran.exists()))):
        _handler(run / "train", f"touch '{ran}'; {program}").run()
    assert told == [("train", run, False), (succeeded, True)]


def test_nothing_is_reported_any_more_when_the_run_has_ended(tmp_path: Path) -> None:
    before = subprocess_task_handler.SubprocessTaskHandler
    with pytest.raises(KeyboardInterrupt), steps_reported(lambda *_: None, lambda _: None):
        raise KeyboardInterrupt
    assert subprocess_task_handler.SubprocessTaskHandler is before
