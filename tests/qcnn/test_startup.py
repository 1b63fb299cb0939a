"""What is held back while libraries greet, and what is not."""

import signal
import subprocess
import sys

import pytest

HELD_BACK = """
import os
from qcnn.startup import end_now, buffer_stderr
with buffer_stderr():
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


KILLED = """
import ctypes, os, sys, threading
from qcnn.startup import buffer_stderr
libc = ctypes.CDLL(None)
with buffer_stderr():
    os.write(2, b"the reason\\n")
    {}
"""


@pytest.mark.parametrize(
    ("program", "number"),
    [
        ("libc.abort()", signal.SIGABRT),
        # As where a library aborts that holds the lock of Python's interpreter, or in a thread of its own.
        ("ctypes.pythonapi.abort()", signal.SIGABRT),
        ("threading.Thread(target=libc.abort).start(); threading.Event().wait()", signal.SIGABRT),
        ("ctypes.string_at(0)", signal.SIGSEGV),
        ("os.kill(os.getpid(), 4)", signal.SIGILL),
    ],
    ids=["abort", "locked", "thread", "memory", "instruction"],
)
def test_why_a_process_is_killed_while_libraries_load_is_shown(program: str, number: signal.Signals) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED.format(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-number, "the reason\n")


SIGNALLED = """
import ctypes, os, signal, threading
from qcnn.startup import end_on_signals
end_on_signals()
libc = ctypes.CDLL(None)
# As TensorFlow's server does.
libc.signal(signal.SIGTERM, libc.getpid)
replaced, found = ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)
libc.sigaction(signal.SIGTERM, None, replaced)
while libc.sigaction(signal.SIGTERM, None, found) or found.raw[:8] == replaced.raw[:8]:
    pass
os.kill(os.getpid(), signal.{})
threading.Event().wait()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_a_library_takes_for_itself_is_taken_back(number: signal.Signals) -> None:
    program = SIGNALLED.format(number.name)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 128 + number
    assert done.stderr == f"ended by {number.name}; the last checkpoint is kept\n"


ENDING = """
import atexit
from qcnn.startup import exit_immediately
atexit.register(print, "waited")
with exit_immediately():
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
