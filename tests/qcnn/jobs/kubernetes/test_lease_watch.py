"""Lease watch without an API server."""

import signal
import subprocess
import sys

import pytest

from qcnn.jobs.kubernetes.lease_watch import LeaseState
from qcnn.process.exit_codes import ABANDONED, PERMANENT_ERROR

WATCH = [sys.executable, "-m", "qcnn.jobs.kubernetes.lease_watch", "--lease", "mine", "--account", "me"]


@pytest.mark.parametrize(
    ("reads", "is_expired"),
    [
        # Age of the last renewal in seconds, or "after" and the duration of the watch for a failed read.
        (["60", "60"], False),
        (["61"], False),
        (["61", "61"], True),
        # The launcher renews the Lease after an outage of the API server.
        (["61", "5", "61"], False),
        (["61", "5", "61", "61"], True),
        # The Lease was never read.
        (["after 60", "after 60"], False),
        (["after 61"], False),
        (["after 61", "after 62"], True),
        (["after 61", "5", "after 62"], False),
        # The Lease can no longer be read.
        (["5", "after 1000", "after 2000"], False),
        (["61", "after 1000", "61"], False),
    ],
)
def test_lease_expires_after_two_stale_reads(reads: list[str], is_expired: bool) -> None:
    state = LeaseState(60)
    for read in reads:
        assert not state.is_expired
        _, failed, seconds = read.rpartition("after ")
        state = state.mark_unreadable("no response", float(seconds)) if failed else state.observe(float(seconds))
    assert state.is_expired is is_expired
    assert state.reason == ("no response" if reads[-1].startswith("after") else "")


def _start(program: str, seconds: float = 60) -> subprocess.Popen[str]:
    command = [
        *WATCH,
        "--seconds",
        str(seconds),
        "--",
    ]
    return subprocess.Popen(
        [*command, sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.parametrize(
    ("program", "code"),
    [("", 0), ("exit(3)", 3), ("exit(138)", 138), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137)],
)
def test_watch_exits_with_code_of_command(program: str, code: int) -> None:
    with _start(program) as process:
        assert process.wait(20) == code


def test_watch_forwards_sigterm_to_command() -> None:
    program = """
import signal
signal.signal(signal.SIGTERM, lambda *_: exit(143))
print("up", flush=True)
signal.pause()
"""
    with _start(program) as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143


def test_unreadable_lease_terminates_command_as_abandoned() -> None:
    with _start("import signal; signal.pause()", seconds=0.5) as process:
        output, _ = process.communicate(timeout=20)
    assert process.returncode == ABANDONED
    assert output.startswith("error: the launcher has not renewed its Lease for 0.5 s (")
    assert output.endswith("; resubmit to resume from the last checkpoint. Given: lease mine\n")


def test_command_that_ignores_sigterm_is_killed() -> None:
    program = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
    with _start(program, seconds=0.5) as process:
        assert process.wait(30) == ABANDONED


def test_missing_command_is_single_line_error() -> None:
    command = [
        *WATCH,
        "--seconds",
        "60",
        "--",
        "no-such",
    ]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == PERMANENT_ERROR
    assert finished.stderr == "error: command: cannot be run (No such file or directory). Given: no-such\n"
