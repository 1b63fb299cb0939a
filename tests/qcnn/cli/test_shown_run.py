"""What a run shows and logs, and what becomes of it where it can do neither."""

import contextlib
import io
import json
import logging
from pathlib import Path

import pytest

from qcnn.cli.output import OutputLostError
from qcnn.cli.shown_run import RunLog


class Broken(io.StringIO):
    """A terminal, or a log, that cannot be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (BrokenPipeError(32, "Broken pipe"), "nobody reads the output any more", 141),
        (OSError(28, "No space left on device"), "the output cannot be written (No space left on device)", 1),
    ],
)
def test_a_run_hears_once_that_its_output_is_lost_even_through_logging(error: OSError, message: str, code: int) -> None:
    log = RunLog(Broken(error))
    logger = logging.Logger("a step's")
    logger.addHandler(logging.StreamHandler(log))
    with pytest.raises(OutputLostError) as lost:
        logger.info("a line for people")
    assert (str(lost.value), lost.value.code) == (message, code)
    # What is said on the way out.
    logger.info("another")
    log.close()


def test_a_log_that_cannot_be_written_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "log.txt").symlink_to("/dev/full")
    log = RunLog(io.StringIO())
    with pytest.raises(OutputLostError, match=r"^the log cannot be written \(No space left on device\)$"):
        log.begin_step("generate-data", tmp_path)
    with contextlib.closing(log):
        log.write("another\n")


@pytest.mark.parametrize("line", ["event of mine", 'event {"event": "state"}', "== train", "12:00:00.000 - mine"])
def test_a_step_may_print_what_it_likes(tmp_path: Path, line: str) -> None:
    shown = io.StringIO()
    with contextlib.closing(RunLog(shown)) as log:
        log.begin_step("train", tmp_path)
        log.write(f"{line}\n")
        log.take("worker 0", {"event": "state", "state": "training"})
    assert shown.getvalue() == (tmp_path / "log.txt").read_text() == f"== train\n    {line}\n"


def test_steps_are_shown_and_logged_by_their_names_with_all_that_they_say(tmp_path: Path) -> None:
    shown = io.StringIO()
    with contextlib.closing(RunLog(shown)) as log:
        log.begin_step("generate-data", tmp_path)
        log.write("a line for people\n\n12:00:00.1: of TensorFlow] I0000 for nobody\na last ")
        log.write("one")
        log.end_step()
        log.begin_step("train", tmp_path)
    assert shown.getvalue() == "== generate-data\n    a line for people\n    a last one\n== train\n"
    assert (tmp_path / "log.txt").read_text() == (
        "== generate-data\n    a line for people\n    \n    12:00:00.1: of TensorFlow] I0000 for nobody\n"
        "    a last one\n== train\n"
    )


def test_a_log_as_json_is_shown_as_text_and_kept_as_it_is(tmp_path: Path) -> None:
    shown = io.StringIO()
    line = '{"severity": "INFO", "message": "epoch 1/3: train_loss 0.5", "role": "worker", "index": 0}'
    with contextlib.closing(RunLog(shown)) as log:
        log.begin_step("train", tmp_path)
        log.write(f"{line}\n")
    assert shown.getvalue() == "== train\n    [worker 0] epoch 1/3: train_loss 0.5\n"
    assert (tmp_path / "log.txt").read_text() == f"== train\n    {line}\n"


def test_epochs_that_the_progress_display_shows_are_not_shown_again(tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    with contextlib.closing(RunLog(shown)) as log:
        log.begin_step("train", tmp_path)
        for message in ("epoch 1/3: train_loss 0.5", "a line for people"):
            line = {"severity": "INFO", "message": message, "role": "worker", "index": 0}
            log.write(f"{json.dumps(line)}\n")
    assert "a line for people" in shown.getvalue()
    assert "epoch 1/3" not in shown.getvalue()
