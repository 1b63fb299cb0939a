"""Tests of the terminal output and the log file of a run."""

import contextlib
import io
import json
import logging
from pathlib import Path

import pytest

from qcnn.cli.output import OutputLostError
from qcnn.cli.step_hooks import RunLog


class Broken(io.StringIO):
    """Text stream that cannot be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (BrokenPipeError(32, "Broken pipe"), "output pipe closed", 141),
        (OSError(28, "No space left on device"), "the output cannot be written (No space left on device)", 1),
    ],
)
def test_run_log_output_error_is_raised_once_through_logging(error: OSError, message: str, code: int) -> None:
    log = RunLog(Broken(error))
    logger = logging.Logger("a step's")
    logger.addHandler(logging.StreamHandler(log))
    with pytest.raises(OutputLostError) as lost:
        logger.info("a visible line")
    assert (str(lost.value), lost.value.code) == (message, code)
    # A line that is printed while the run exits.
    logger.info("another")
    log.close()


def test_run_log_file_error_is_raised_once(tmp_path: Path) -> None:
    (tmp_path / "log.txt").symlink_to("/dev/full")
    log = RunLog(io.StringIO())
    with pytest.raises(OutputLostError, match=r"^the log cannot be written \(No space left on device\)$"):
        log.begin_step("generate-data", tmp_path)
    with contextlib.closing(log):
        log.write("another\n")


@pytest.mark.parametrize("line", ["event of mine", 'event {"event": "state"}', "== train", "12:00:00.000 - mine"])
def test_run_log_prints_any_line_of_a_step(tmp_path: Path, line: str) -> None:
    terminal = io.StringIO()
    with contextlib.closing(RunLog(terminal)) as log:
        log.begin_step("train", tmp_path)
        log.write(f"{line}\n")
        log.take("worker 0", {"event": "state", "state": "training"})
    assert terminal.getvalue() == (tmp_path / "log.txt").read_text() == f"== train\n    {line}\n"


def test_run_log_prints_steps_and_logs_hidden_lines(tmp_path: Path) -> None:
    terminal = io.StringIO()
    with contextlib.closing(RunLog(terminal)) as log:
        log.begin_step("generate-data", tmp_path)
        log.write("a visible line\n\n12:00:00.1: of TensorFlow] I0000 hidden\na last ")
        log.write("one")
        log.end_step()
        log.begin_step("train", tmp_path)
    assert terminal.getvalue() == "== generate-data\n    a visible line\n    a last one\n== train\n"
    assert (tmp_path / "log.txt").read_text() == (
        "== generate-data\n    a visible line\n    \n    12:00:00.1: of TensorFlow] I0000 hidden\n"
        "    a last one\n== train\n"
    )


def test_run_log_prints_json_as_text_and_logs_json(tmp_path: Path) -> None:
    terminal = io.StringIO()
    line = '{"severity": "INFO", "message": "epoch 1/3: train_loss 0.5", "role": "worker", "index": 0}'
    with contextlib.closing(RunLog(terminal)) as log:
        log.begin_step("train", tmp_path)
        log.write(f"{line}\n")
    assert terminal.getvalue() == "== train\n    [worker 0] epoch 1/3: train_loss 0.5\n"
    assert (tmp_path / "log.txt").read_text() == f"== train\n    {line}\n"


def test_run_log_with_progress_display_hides_epoch_lines(tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    with contextlib.closing(RunLog(terminal)) as log:
        log.begin_step("train", tmp_path)
        for message in ("epoch 1/3: train_loss 0.5", "a visible line"):
            line = {"severity": "INFO", "message": message, "role": "worker", "index": 0}
            log.write(f"{json.dumps(line)}\n")
    assert "a visible line" in terminal.getvalue()
    assert "epoch 1/3" not in terminal.getvalue()
