"""What becomes of a command whose output cannot be written, or that nobody reads."""

import contextlib
import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.errors import OutputLostError
from cli.local.log import RunLog

QCNN = Path(sys.executable).with_name("qcnn")


def run(command: str, folder: Path) -> tuple[int, str]:
    """Run a command of the shell; return the exit code of its first program, and what is on stderr."""
    shell = ("bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}")
    done = subprocess.run(shell, cwd=folder, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


def test_a_run_that_nobody_reads_ends_with_one_line_and_leaves_no_process(tmp_path: Path) -> None:
    code, said = run(f"{QCNN} run --qubits 4 | head -1 > first", tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    assert said == f"error: nobody reads the output any more; the run was ended. Given: {folder}\n"
    assert (code, (tmp_path / "first").read_text()) == (141, "== generate-data\n")


@pytest.mark.parametrize(
    ("command", "code", "line"),
    [
        ("compare >/dev/full", 1, "error: No space left on device. Given: the output\n"),
        ("run --help >/dev/full", 1, "error: No space left on device. Given: the output\n"),
        ("run --qubits 3 2>/dev/full", 2, ""),
        ("run --qubits 3 <&- >&-", 2, "error: qubits: must be an integer, at least 4 and at most 32768. Given: 3\n"),
        (f"run --{'x' * 1000}", 2, f"error: No such option '--{'x' * 80} ... {'x' * 95}'.\n"),
    ],
)
def test_a_command_that_cannot_print_says_so_once(tmp_path: Path, command: str, code: int, line: str) -> None:
    assert run(f"{QCNN} {command}", tmp_path) == (code, line)


def test_a_process_without_standard_streams_gets_some_that_lead_nowhere(tmp_path: Path) -> None:
    program = """
import os, sys
from trainer.startup import open_standard_streams
open_standard_streams()
opened = os.open("file", os.O_WRONLY | os.O_CREAT)
print("printed"), sys.stderr.write("said"), sys.stdin.read()
sys.stdout.flush()
os.write(opened, str(opened).encode())
"""
    (tmp_path / "program.py").write_text(program)
    root = Path(__file__).parents[2]
    for closed in ("<&- >&- 2>&-", ">&- 2>&-", ">&-", "<&- 2>&-"):
        run(f"PYTHONPATH={root} {sys.executable} program.py {closed}", tmp_path)
        # It stands behind the three, so that nothing that is printed goes into it.
        assert int((tmp_path / "file").read_text()) > 2


def test_the_log_lines_of_a_process_that_nobody_reads_end_it(tmp_path: Path) -> None:
    program = """
import logging
from trainer.startup import one_line_errors
with one_line_errors():
    while True:
        logging.getLogger("qcnn").info("line")
"""
    (tmp_path / "program.py").write_text(program)
    command = f"PYTHONPATH={Path(__file__).parents[2]} {sys.executable} program.py"
    said = "error: nobody reads the output of this process any more\n"
    assert run(f"{command} | head -1 > first", tmp_path) == (138, said)
    said = "error: output: cannot be written (No space left on device). Given: standard output\n"
    assert run(f"{command} > /dev/full", tmp_path) == (2, said)


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
    logger = logging.Logger("kubeflow's")
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
    log.write("a line that waits\n")
    with pytest.raises(OutputLostError, match=r"^the log cannot be written \(No space left on device\)$"):
        log.begin_step("generate-data", tmp_path)
    with contextlib.closing(log):
        log.write("another\n")


@pytest.mark.parametrize(
    "line", ["event of mine", 'event {"event"', "event []", 'event {"kind": 1}', "event " + "[" * 9999]
)
def test_a_step_may_print_what_looks_like_an_event(line: str) -> None:
    shown = io.StringIO()
    log = RunLog(shown)
    log.write(f"    {line}\n")
    assert shown.getvalue() == f"    {line}\n"
    log.write('    event {"event": "state", "process": "worker 0", "state": "training"}\n')
    assert shown.getvalue() == f"    {line}\n"
    assert os.linesep in shown.getvalue()
