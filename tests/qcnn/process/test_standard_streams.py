"""Output, signals and exit of a process while libraries load."""

import re
import signal
import subprocess
import sys

import pytest

BUFFERED = """
import os
from qcnn.process.standard_streams import exit_with_message, buffer_stderr
with buffer_stderr():
    os.write(2, b"a greeting\\n")
    {}
os.write(2, b"the end\\n")
"""


@pytest.mark.parametrize(
    ("program", "stderr"),
    [
        ("pass", "the end\n"),
        # A worker that receives SIGTERM while it waits for other workers.
        ("exit_with_message('ended by SIGTERM', 143)", "ended by SIGTERM\n"),
        ("raise SystemExit('error')", "a greeting\nerror\n"),
    ],
    ids=["well", "at once", "failing"],
)
def test_buffer_stderr_discards_output_unless_process_fails(program: str, stderr: str) -> None:
    done = subprocess.run([sys.executable, "-c", BUFFERED.format(program)], capture_output=True, text=True, check=False)
    assert done.stderr == stderr


LOGGING = """
import logging, os, sys, threading
from qcnn.process.standard_streams import exit_with_message
logging.basicConfig(format="%(message)s", level=logging.INFO)
def log():
    while True: logging.info("a line")
for _ in range(50):
    if not (child := os.fork()):
        threads = [threading.Thread(target=log, daemon=True) for _ in range(4)]
        [thread.start() for thread in threads]
        exit_with_message("the reason", 143)
    os.waitpid(child, 0)
    os.write(2, b"exited\\n")
"""


def test_exit_with_message_prints_last_line_of_process() -> None:
    done = subprocess.run([sys.executable, "-c", LOGGING], capture_output=True, text=True, check=True)
    assert done.stderr.count("the reason\nexited\n") == 50


KILLED = """
import ctypes, os, sys, threading
from qcnn.process.standard_streams import buffer_stderr
libc = ctypes.CDLL(None)
with buffer_stderr():
    os.write(2, b"the reason\\n")
    {}
"""


@pytest.mark.parametrize(
    ("program", "number"),
    [
        ("libc.abort()", signal.SIGABRT),
        # A library may abort with the global interpreter lock or in another thread.
        ("ctypes.pythonapi.abort()", signal.SIGABRT),
        ("threading.Thread(target=libc.abort).start(); threading.Event().wait()", signal.SIGABRT),
        ("ctypes.string_at(0)", signal.SIGSEGV),
        ("os.kill(os.getpid(), 4)", signal.SIGILL),
    ],
    ids=["abort", "locked", "thread", "memory", "instruction"],
)
def test_buffer_stderr_prints_output_before_fatal_signal(program: str, number: signal.Signals) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED.format(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-number, "the reason\n")


LIMITED = """
import ctypes, os, resource
from qcnn.process.error_lines import one_line_errors
from qcnn.process.standard_streams import buffer_stderr
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, -1))
with one_line_errors():
    {}
"""


@pytest.mark.parametrize(
    "program",
    [
        # TensorFlow aborts if it cannot start a thread.
        "with buffer_stderr(): os.write(2, b'pthread_create() failed\\n'); ctypes.CDLL(None).abort()",
        "bytes(10**12)",
        "raise ImportError('libtensorflow_cc.so.2: failed to map segment from shared object')",
    ],
    ids=["abort", "memory", "import"],
)
def test_error_caused_by_limit_has_one_line_with_its_name(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED.format(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.fullmatch(r"error: ulimit -v: must be .* Given: 4194304 KiB\n", done.stderr)


SIGNALLED = """
import ctypes, os, signal, threading
from qcnn.process.signals import end_on_signals
end_on_signals()
libc = ctypes.CDLL(None)
# TensorFlow's server replaces the handler in this way.
libc.signal(signal.SIGTERM, libc.getpid)
replaced, found = ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)
libc.sigaction(signal.SIGTERM, None, replaced)
while libc.sigaction(signal.SIGTERM, None, found) or found.raw[:8] == replaced.raw[:8]:
    pass
os.kill(os.getpid(), signal.{})
threading.Event().wait()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_end_on_signals_restores_replaced_handler(number: signal.Signals) -> None:
    program = SIGNALLED.format(number.name)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 128 + number
    assert done.stderr == f"ended by {number.name}; the last checkpoint is kept\n"


ENDING = """
import atexit
from qcnn.process.error_lines import exit_immediately
atexit.register(print, "waited")
with exit_immediately():
    print("printed", flush=False)
    {}
"""


@pytest.mark.parametrize(
    ("program", "code"), [("pass", 0), ("raise SystemExit", 0), ("raise SystemExit(138)", 138), ("1 / 0", 1)]
)
def test_exit_immediately_flushes_output_and_skips_atexit(program: str, code: int) -> None:
    done = subprocess.run([sys.executable, "-c", ENDING.format(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "printed\n")
    assert ("ZeroDivisionError" in done.stderr) == (code == 1)
