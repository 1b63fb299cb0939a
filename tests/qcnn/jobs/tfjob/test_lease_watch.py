"""How a pod ends its training when nobody renews its Lease, where there is no cluster; tests/cluster has the rest."""

import signal
import subprocess
import sys

import pytest

from qcnn.jobs.tfjob.lease_watch import LeaseState
from qcnn.startup import ABANDONED, OWN_FAULT

WATCH = [sys.executable, "-m", "qcnn.jobs.tfjob.lease_watch", "--lease", "mine", "--account", "me"]


@pytest.mark.parametrize(
    ("looks", "is_over"),
    [
        # The age of the last renewal, or after how long a watch it could not be read.
        (["60", "60"], False),
        (["61"], False),
        (["61", "61"], True),
        # After a pause of the API server the launcher gets the time to renew it.
        (["61", "5", "61"], False),
        (["61", "5", "61", "61"], True),
        # It was never read.
        (["after 60", "after 60"], False),
        (["after 61"], False),
        (["after 61", "after 62"], True),
        (["after 61", "5", "after 62"], False),
        # It cannot be read any more.
        (["5", "after 1000", "after 2000"], False),
        (["61", "after 1000", "61"], False),
    ],
)
def test_a_launcher_counts_as_gone_once_its_lease_was_stale_twice(looks: list[str], is_over: bool) -> None:
    watched = LeaseState(60)
    for look in looks:
        assert not watched.is_over
        _, missed, seconds = look.rpartition("after ")
        watched = watched.mark_unreadable("no answer", float(seconds)) if missed else watched.observe(float(seconds))
    assert watched.is_over is is_over
    assert watched.reason == ("no answer" if looks[-1].startswith("after") else "")


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
def test_a_command_ends_as_it_would_alone(program: str, code: int) -> None:
    with _start(program) as process:
        assert process.wait(20) == code


def test_a_command_is_told_to_end_when_the_pod_is() -> None:
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


def test_a_command_whose_lease_never_could_be_read_is_ended_for_good() -> None:
    with _start("import signal; signal.pause()", seconds=0.5) as process:
        output, _ = process.communicate(timeout=20)
    assert process.returncode == ABANDONED
    assert output.startswith("error: the launcher has not renewed its lease for 0.5 s (")
    assert output.endswith("; the last checkpoint counts. Given: lease mine\n")


def test_a_command_that_does_not_end_when_told_to_is_killed() -> None:
    program = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
    with _start(program, seconds=0.5) as process:
        assert process.wait(30) == ABANDONED


def test_a_command_that_cannot_be_run_is_said_in_one_line() -> None:
    command = [
        *WATCH,
        "--seconds",
        "60",
        "--",
        "no-such",
    ]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == OWN_FAULT
    assert finished.stderr == "error: command: cannot be run (No such file or directory). Given: no-such\n"
