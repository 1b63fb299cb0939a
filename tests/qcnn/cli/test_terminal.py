"""Tests of the terminal output of a run."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from qcnn.cli.output import OutputLostError
from qcnn.cli.terminal import TerminalObserver


class Broken(io.StringIO):
    """Text stream that cannot be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


class Terminal(io.StringIO):
    """Text stream of a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (BrokenPipeError(32, "Broken pipe"), "output pipe closed", 141),
        (OSError(28, "No space left on device"), "the output cannot be written (No space left on device)", 1),
    ],
)
def test_output_error_is_raised_once(error: OSError, message: str, code: int) -> None:
    observer = TerminalObserver(Broken(error))
    with pytest.raises(OutputLostError) as lost:
        observer.line("a visible line")
    assert (str(lost.value), lost.value.code) == (message, code)
    # A line that is printed while the run exits.
    observer.line("another")
    observer.close()


@pytest.mark.parametrize("line", ["event of mine", 'event {"event": "state"}', "== train", "12:00:00.000 - mine"])
def test_any_line_of_a_step_is_printed(line: str) -> None:
    terminal = io.StringIO()
    observer = TerminalObserver(terminal)
    observer.step("train", "running")
    observer.line(line)
    observer.event("worker 0", {"event": "state", "state": "training"})
    observer.close()
    assert terminal.getvalue() == f"== train\n    {line}\n"


def test_messages_of_tensorflow_are_hidden() -> None:
    terminal = io.StringIO()
    observer = TerminalObserver(terminal)
    for line in ("a visible line", "", "12:00:00.1: of TensorFlow] I0000 hidden", "a last one"):
        observer.line(line)
    assert terminal.getvalue() == "    a visible line\n    a last one\n"


def test_json_is_printed_as_text() -> None:
    terminal = io.StringIO()
    line = '{"severity": "INFO", "message": "epoch 1/3: train_loss 0.5", "role": "worker", "index": 0}'
    TerminalObserver(terminal).line(line)
    assert terminal.getvalue() == "    [worker 0] epoch 1/3: train_loss 0.5\n"


def test_progress_display_hides_epoch_lines() -> None:
    terminal = Terminal()
    observer = TerminalObserver(terminal)
    for message in ("epoch 1/3: train_loss 0.5", "a visible line"):
        observer.line(json.dumps({"severity": "INFO", "message": message, "role": "worker", "index": 0}))
    assert "a visible line" in terminal.getvalue()
    assert "epoch 1/3" not in terminal.getvalue()


def test_lines_of_parallel_trials_name_their_trial() -> None:
    terminal = io.StringIO()
    study = TerminalObserver(terminal)
    study.trial(1, 3, is_trained=False)
    trial = study.of_trial(1)
    trial.step("train", "running")
    trial.line("a visible line")
    assert terminal.getvalue() == ("== trial 1, 2 of 3\ntrial 1: == train\ntrial 1:     a visible line\n")


def test_tables_of_parallel_trials_name_their_trial() -> None:
    terminal = Terminal()
    study = TerminalObserver(terminal)
    for number in (0, 1):
        study.of_trial(number).event("worker 0", {"event": "state", "state": "training"})
    assert "trial 0: worker 0: training" in terminal.getvalue()
    assert "trial 1: worker 0: training" in terminal.getvalue()


@pytest.fixture(autouse=True)
def _level() -> Iterator[None]:
    """Restore the log level, which an observer sets."""
    logger = logging.getLogger("qcnn")
    before = logger.level
    yield
    logger.setLevel(before)
