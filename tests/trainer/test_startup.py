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
