"""Records of local runs, including killed ones."""

import datetime
import errno
import fcntl
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from qcnn.results.local_run import FILE, RecordedStep, RunRecord, RunRecorder, read_record

ROOT = Path(__file__).parents[3]
WORDS = {"qubits": 8, "options": {"max_restarts": 3}}


def test_run_recorder_records_fields_times_and_steps(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "first"
    before = datetime.datetime.now(datetime.UTC)
    with RunRecorder(WORDS) as recorder:
        recorder.begin_step("generate-data", run)
        assert read_record(run).steps == (RecordedStep("generate-data", "running"),)
        recorder.end_step(True)
        recorder.begin_step("train", run)
        running = read_record(run)
        recorder.end_step(True)
    after = datetime.datetime.now(datetime.UTC)
    assert (running.state, running.ended, running.seconds) == ("running", None, None)
    assert [(step.name, step.state) for step in running.steps] == [
        ("generate-data", "succeeded"),
        ("train", "running"),
    ]
    ended = read_record(run)
    assert (ended.state, ended.words) == ("succeeded", WORDS)
    assert ended.ended
    assert before <= ended.started <= ended.ended <= after
    assert [(step.name, step.state) for step in ended.steps] == [("generate-data", "succeeded"), ("train", "succeeded")]
    assert all(step.seconds is not None and step.seconds >= 0 for step in ended.steps)
    assert [path.name for path in run.iterdir()] == [FILE]
    # The JSON form is an interface for other programs.
    assert json.loads((run / FILE).read_text())["steps"][0]["name"] == "generate-data"


@pytest.mark.parametrize(("error", "state"), [(RuntimeError, "failed"), (KeyboardInterrupt, "interrupted")])
def test_run_recorder_error_sets_state_of_run_and_step(tmp_path: Path, error: type[BaseException], state: str) -> None:
    recorder = RunRecorder(WORDS)

    def end() -> None:
        with recorder:
            recorder.begin_step("train", tmp_path)
            raise error

    with pytest.raises(error):
        end()
    record = read_record(tmp_path)
    assert (record.state, record.steps[0].state) == (state, state)
    assert record.ended
    assert record.steps[0].seconds is not None


def test_run_recorder_has_name_of_failed_step(tmp_path: Path) -> None:
    with RunRecorder(WORDS) as recorder:
        assert recorder.failed_step is None
        for name, succeeded in (("generate-data", True), ("train", False)):
            recorder.begin_step(name, tmp_path)
            recorder.end_step(succeeded)
        assert recorder.failed_step == "train"


def test_run_recorder_without_steps_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), RunRecorder(WORDS):
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_read_record_killed_run_is_interrupted(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from qcnn.results.local_run import RunRecorder
with RunRecorder({WORDS!r}) as recorder:
    recorder.begin_step("train", Path({str(tmp_path)!r}))
    print("begun", flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        assert running.stdout.readline() == "begun\n"
        assert read_record(tmp_path).state == "running"
        # A copy of a running run is not locked.
        shutil.copytree(tmp_path, tmp_path / "copy")
        assert read_record(tmp_path / "copy").state == "interrupted"
        running.send_signal(signal.SIGKILL)
        running.wait()
    killed = read_record(tmp_path)
    assert (killed.state, killed.seconds) == ("interrupted", None)


def test_read_record_without_locks_is_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_no_locks(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", raise_no_locks)
    with RunRecorder(WORDS) as recorder:
        recorder.begin_step("train", tmp_path)
        assert read_record(tmp_path).state == "running"
    assert read_record(tmp_path).state == "succeeded"


def test_read_record_run_ending_during_read_is_succeeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = RunRecord("running", datetime.datetime.now(datetime.UTC), None, (), {})
    answers = iter([running, RunRecord("succeeded", running.started, running.started, (), {})])
    monkeypatch.setattr("qcnn.results.local_run._read", lambda run: next(answers))
    assert read_record(tmp_path).state == "succeeded"
