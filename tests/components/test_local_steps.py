"""Steps in separate processes: output and exit."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from qcnn.components.local_steps import evaluate_step, export_step, run_in_subprocess, trial_data_step
from qcnn.errors import ArtifactError
from qcnn.experiment.parsing import from_mapping
from qcnn.results.local_run import RunRecorder, of_run, of_trial


@pytest.mark.usefixtures("forks")
def test_error_of_step_in_subprocess_is_raised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = of_run(tmp_path / "run")
    with pytest.raises(ArtifactError) as alone:
        evaluate_step(folders.run)
    with pytest.raises(ArtifactError, match=f"^{re.escape(str(alone.value))}$"):
        run_in_subprocess(evaluate_step, [folders.run], None, print)
    assert capsys.readouterr().out == ""
    assert not list(tmp_path.iterdir())


def test_step_ends_if_its_output_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def output(line: str) -> None:
        raise BrokenPipeError

    # The process prints many lines.
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    before = psutil.Process().children()
    with pytest.raises(BrokenPipeError):
        run_in_subprocess(export_step, [tmp_path / "run"], None, output)
    assert psutil.Process().children() == before


@pytest.mark.usefixtures("forks")
def test_interrupt_of_another_thread_ends_step(tmp_path: Path) -> None:
    """Ground states that take a minute."""
    trial = of_trial(tmp_path / "trial")
    fields = from_mapping({"qubits": 16, "rounds": 64, "data": "annni", "classes": 3, "loss": "cross_entropy"})
    with RunRecorder(fields.model_dump()) as recorder:
        recorder.begin_step("trial-data", trial.run)
    before = psutil.Process().children(recursive=True)
    lines: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run_in_subprocess(trial_data_step, [trial.run], None, lines.append, lambda: bool(lines))
    assert lines == ["diagonalizing for 1024 ground states of 16 qubits"]
    assert psutil.Process().children(recursive=True) == before
    assert not trial.dataset.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_terminated_step_prints_nothing(tmp_path: Path, number: signal.Signals) -> None:
    program = (
        "import os, signal, sys\n"
        "from qcnn.components import local_steps\n"
        f"def step(folder): os.kill(os.getpid(), {int(number)}); signal.pause()\n"
        "local_steps._STEPS['step'] = step\n"
        "sys.argv[1:] = ['step', '2', '.']\n"
        "local_steps.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
