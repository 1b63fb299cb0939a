"""Tests of commands whose output cannot be written."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qcnn.cli.output import INTERRUPTED

QCNN = Path(sys.executable).with_name("qcnn")


def run(command: str, folder: Path) -> tuple[int, str]:
    """Run a shell command and return the exit code of its first program and its stderr."""
    shell = ("bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}")
    done = subprocess.run(shell, cwd=folder, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


def test_run_with_closed_pipe_exits_with_one_line(tmp_path: Path) -> None:
    code, stderr = run(f"{QCNN} run --qubits 4 | head -1 > first", tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    assert stderr == f"error: output pipe closed; the run was terminated. Given: {folder}\n"
    assert (code, (tmp_path / "first").read_text()) == (141, "== generate-data\n")


@pytest.mark.parametrize(
    ("command", "code", "line"),
    [
        ("compare >/dev/full", 1, "error: No space left on device. Given: the output\n"),
        ("run --help >/dev/full", 1, "error: No space left on device. Given: the output\n"),
        ("run --qubits 3 2>/dev/full", 2, ""),
        ("run --qubits 3 <&- >&-", 2, "error: qubits: must be at least 4 with hybrid. Given: 3\n"),
        (f"run --{'x' * 1000}", 2, f"error: No such option '--{'x' * 80} ... {'x' * 95}'.\n"),
    ],
)
def test_command_that_cannot_print_reports_error_once(tmp_path: Path, command: str, code: int, line: str) -> None:
    assert run(f"{QCNN} {command}", tmp_path) == (code, line)


def test_process_without_standard_streams_opens_null_streams(tmp_path: Path) -> None:
    program = """
import os, sys
from qcnn.process.standard_streams import open_standard_streams
open_standard_streams()
opened = os.open("file", os.O_WRONLY | os.O_CREAT)
print("printed"), sys.stderr.write("error"), sys.stdin.read()
sys.stdout.flush()
os.write(opened, str(opened).encode())
"""
    (tmp_path / "program.py").write_text(program)
    root = Path(__file__).parents[3]
    for closed in ("<&- >&- 2>&-", ">&- 2>&-", ">&-", "<&- 2>&-"):
        run(f"PYTHONPATH={root} {sys.executable} program.py {closed}", tmp_path)
        # Descriptors 0 to 2 are in use, so printed text cannot reach the file.
        assert int((tmp_path / "file").read_text()) > 2


def test_process_with_closed_pipe_exits_at_log_line(tmp_path: Path) -> None:
    program = """
import logging
from qcnn.process.error_lines import one_line_errors
with one_line_errors():
    while True:
        logging.getLogger("qcnn").info("line")
"""
    (tmp_path / "program.py").write_text(program)
    command = f"PYTHONPATH={Path(__file__).parents[3]} {sys.executable} program.py"
    stderr = "error: output pipe closed\n"
    assert run(f"{command} | head -1 > first", tmp_path) == (138, stderr)
    stderr = "error: output: cannot be written (No space left on device). Given: standard output\n"
    assert run(f"{command} > /dev/full", tmp_path) == (2, stderr)


@pytest.mark.parametrize("shared", [False, True])
def test_interrupted_command_does_not_wait_for_its_reader(*, shared: bool) -> None:
    """The buffer of stdout has a line for a pipe that is full, which may also be stderr."""
    program = f"import sys; from qcnn.cli import main; print('a line'); main._stop('interrupted', {INTERRUPTED})"
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x")
    os.set_blocking(writer, True)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdout=writer,
            stderr=writer if shared else subprocess.PIPE,
            text=True,
            env=buffered,
            timeout=60,
        )
    finally:
        os.close(writer)
        os.close(reader)
    assert (done.returncode, done.stderr) == (INTERRUPTED, None if shared else "interrupted\n")
