"""Local training of the linear model."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.linear_regression.model import INTERCEPT, SLOPE
from tests.components.steps.local_jobs import launched
from tests.shared_training_runs import ROOT
from tests.tensorboard_server import scalars

RUN = (sys.executable, "-m", "examples.linear_regression.run")
UPDATES = 1000
REPLICAS = {"chief": 1, "ps": 1, "worker": 1}


@pytest.mark.long
def test_killed_worker_restarts_and_training_converges(tmp_path: Path) -> None:
    with launched([*RUN, "--output", str(tmp_path), "--updates", str(UPDATES)], REPLICAS) as launcher:
        launcher.read_until(r"\[chief 0\] update")
        launcher.kill("worker 0")
        assert launcher.finish() == 0, launcher.output
    assert "worker 0 was killed by SIGKILL; restarting worker 0 (1 of 3)" in launcher.output
    assert "continuing" not in launcher.output
    _assert_found(tmp_path)
    assert max(scalars(tmp_path / "logs")["w"]) == UPDATES


@pytest.mark.long
def test_killed_chief_resumes_from_checkpoint(tmp_path: Path) -> None:
    with launched([*RUN, "--output", str(tmp_path), "--updates", str(UPDATES)], REPLICAS) as launcher:
        launcher.read_until(r"\[chief 0\] update")
        launcher.kill("chief 0")
        assert launcher.finish() == 0, launcher.output
    assert re.search(r"\[chief 0\] continuing after update [1-9]", launcher.output)
    _assert_found(tmp_path)


@pytest.mark.long
def test_rerun_in_finished_folder_exits_at_once(tmp_path: Path) -> None:
    line: dict[str, Any] = {f"variable_{number}": np.zeros(1) for number in range(2)}
    np.savez(tmp_path / "line.npz", updates=np.array(UPDATES), **line)
    with launched([*RUN, "--output", str(tmp_path), "--updates", str(UPDATES)], REPLICAS) as launcher:
        assert launcher.finish() == 0, launcher.output
    assert launcher.output == ""


def _assert_found(folder: Path) -> None:
    with np.load(folder / "line.npz") as saved:
        assert saved["updates"] == UPDATES
        slope, intercept = saved["variable_0"], saved["variable_1"]
    assert slope == pytest.approx(SLOPE, rel=0.01)
    assert intercept == pytest.approx(INTERCEPT, abs=0.02)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--updates", "0"], "error: Invalid value for '--updates': 0 is not in the range x>=1."),
        (["--namespace", "team"], "error: target: must be tfjob with a namespace or pod settings. Given: local"),
    ],
)
def test_run_with_invalid_arguments_is_a_single_line_error(arguments: list[str], message: str, tmp_path: Path) -> None:
    command = [*RUN, "--output", str(tmp_path / "line"), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, message + "\n")
    assert not (tmp_path / "line").exists()
