"""Limits of a process that are too small for TensorFlow."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qcnn.errors import ConfigError
from qcnn.process import limits as process_limits

GIB = 2**30
THREAD = "env.cc:74] Check failed: ret == 0 (11 vs. 0)Thread tf_Compute creation via pthread_create() failed."
USUAL = {"-n": 1024, "-u": 96365}


@pytest.mark.parametrize(
    ("output", "limits", "flag"),
    [
        (THREAD, {"-v": 4 * GIB, **USUAL}, "-v"),
        (THREAD, {"-d": GIB, **USUAL}, "-d"),
        (THREAD, USUAL, "-u"),
        ("RuntimeError: can't start new thread", {"-v": 3 * GIB}, "-v"),
        ("thread_manager.cc:38] Could not create grpc_sync_server worker-thread", {"-d": GIB}, "-d"),
        ("ImportError: libtensorflow_cc.so.2: failed to map segment from shared object", {"-v": GIB}, "-v"),
        ("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc", {"-v": 1}, "-v"),
        ("_ArrayMemoryError: Unable to allocate 8.00 GiB", {"-v": 9 * GIB}, "-v"),
        ("OSError: [Errno 12] Cannot allocate memory", {"-v": 9 * GIB}, "-v"),
        ("LLVM ERROR: out of memory\nAllocation failed", {"-v": 9 * GIB}, "-v"),
        ("OSError: [Errno 24] Too many open files\nassertion failed: i != pss->pollset_count", USUAL, "-n"),
        # The machine has too little memory, or another cause.
        ("std::bad_alloc", USUAL, None),
        ("killed", {"-v": GIB}, None),
        ("Memory of the chief: 800 MiB", {"-v": GIB}, None),
    ],
)
def test_reached_limit_is_named_by_output(output: str, limits: dict[str, int], flag: str | None) -> None:
    message = process_limits.reached_limit(output, limits)
    if flag is None:
        assert message is None
    else:
        assert re.fullmatch(rf"ulimit {flag}: must be unlimited or .*\. Given: \d+( KiB)?", message or "")


@pytest.mark.parametrize(
    ("limits", "flag"), [({"-v": 4 * GIB}, "-v"), ({"-d": GIB}, "-d"), ({"-v": 64 * GIB}, None), (USUAL, None)]
)
def test_reached_limit_of_crash_without_message(limits: dict[str, int], flag: str | None) -> None:
    message = process_limits.reached_limit("some line", limits, crashed=True)
    assert (message or "").startswith(f"ulimit {flag}: " if flag else "")
    assert (message is None) == (flag is None)


@pytest.mark.parametrize(
    ("limits", "given"),
    [
        ({**USUAL, "-v": 2_000_000 * 1024}, "ulimit -v: must be .* 5 GiB.* Given: 2000000 KiB"),
        ({**USUAL, "-d": 500_000 * 1024}, "ulimit -d: must be .* 2 GiB.* Given: 500000 KiB"),
        ({"-n": 16}, "ulimit -n: must be .* 100.* Given: 16"),
        (USUAL, None),
        ({"-v": 4 * GIB, "-d": GIB}, None),
    ],
)
def test_check_limits_rejects_what_is_known_to_fail(
    limits: dict[str, int], given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_limits, "process_limits", lambda: limits)
    if given is None:
        process_limits.check_limits()
    else:
        with pytest.raises(ConfigError, match=f"^{given}$"):
            process_limits.check_limits()


def test_run_with_small_limit_fails_before_it_starts(tmp_path: Path) -> None:
    command = ("bash", "-c", 'ulimit -v 2000000; exec "$@"', "bash", sys.executable, "-m", "qcnn.cli")
    done = subprocess.run(
        [*command, "run", "--runs", str(tmp_path / "runs"), "--qubits", "4"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert done.returncode == 2
    assert re.fullmatch(r"error: ulimit -v: must be unlimited or .* Given: 2000000 KiB\n", done.stderr)
    assert not list(tmp_path.glob("runs/*"))
