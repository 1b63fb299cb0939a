"""What is written down of a run, and what is read of one that was killed."""

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


def test_a_run_that_succeeds_leaves_its_words_times_and_steps(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "first"
    before = datetime.datetime.now(datetime.timezone.utc)
    with RunRecorder(WORDS) as recorder:
        recorder.begin_step("generate-data", run)
        assert read_record(run).steps == (RecordedStep("generate-data", "running"),)
        recorder.end_step(True)
        recorder.begin_step("train", run)
        going_on = read_record(run)
        recorder.end_step(True)
    after = datetime.datetime.now(datetime.timezone.utc)
    assert (going_on.state, going_on.ended, going_on.seconds) == ("running", None, None)
    assert [(step.name, step.state) for step in going_on.steps] == [
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
    # For programs of others.
    assert json.loads((run / FILE).read_text())["steps"][0]["name"] == "generate-data"


@pytest.mark.parametrize(("error", "state"), [(RuntimeError, "failed"), (KeyboardInterrupt, "interrupted")])
def test_what_ends_a_run_is_its_state_and_that_of_its_step(
    tmp_path: Path, error: type[BaseException], state: str
) -> None:
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


def test_the_step_that_fails_is_named(tmp_path: Path) -> None:
    with RunRecorder(WORDS) as recorder:
        assert recorder.failed_step is None
        for name, succeeded in (("generate-data", True), ("train", False)):
            recorder.begin_step(name, tmp_path)
            recorder.end_step(succeeded)
        assert recorder.failed_step == "train"


def test_a_run_that_ends_before_its_first_step_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), RunRecorder(WORDS):
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_a_killed_run_is_interrupted(tmp_path: Path) -> None:
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
        # A copy is of a run, but none.
        shutil.copytree(tmp_path, tmp_path / "copy")
        assert read_record(tmp_path / "copy").state == "interrupted"
        running.send_signal(signal.SIGKILL)
        running.wait()
    killed = read_record(tmp_path)
    assert (killed.state, killed.seconds) == ("interrupted", None)


def test_a_file_system_without_locks_leaves_a_run_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with RunRecorder(WORDS) as recorder:
        recorder.begin_step("train", tmp_path)
        assert read_record(tmp_path).state == "running"
    assert read_record(tmp_path).state == "succeeded"


def test_a_run_that_ends_while_it_is_looked_at_is_not_taken_for_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = RunRecord("running", datetime.datetime.now(datetime.timezone.utc), None, (), {})
    answers = iter([running, RunRecord("succeeded", running.started, running.started, (), {})])
    monkeypatch.setattr("qcnn.results.local_run._read", lambda run: next(answers))
    assert read_record(tmp_path).state == "succeeded"
