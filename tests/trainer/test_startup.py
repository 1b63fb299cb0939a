"""What is held back while libraries greet, and what is not."""

import subprocess
import sys

import pytest

HELD_BACK = """
import os
from trainer.startup import end_now, stderr_held_back
with stderr_held_back():
    os.write(2, b"a greeting\\n")
    {}
os.write(2, b"the end\\n")
"""


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("pass", "the end\n"),
        # As where a worker that waits for its peers is told to end.
        ("end_now('ended by SIGTERM', 143)", "ended by SIGTERM\n"),
        ("raise SystemExit('error')", "a greeting\nerror\n"),
    ],
    ids=["well", "at once", "failing"],
)
def test_last_words_are_heard_while_greetings_are_not(program: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HELD_BACK.format(program)], capture_output=True, text=True, check=False
    )
    assert done.stderr == said


ENDING = """
import atexit
from trainer.startup import ending_at_once
atexit.register(print, "waited")
with ending_at_once():
    print("said", flush=False)
    {}
"""


@pytest.mark.parametrize(
    ("program", "code"), [("pass", 0), ("raise SystemExit", 0), ("raise SystemExit(138)", 138), ("1 / 0", 1)]
)
def test_what_ends_at_once_waits_for_nothing_and_loses_nothing(program: str, code: int) -> None:
    done = subprocess.run([sys.executable, "-c", ENDING.format(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "said\n")
    assert ("ZeroDivisionError" in done.stderr) == (code == 1)
