"""What `make run` takes: python -m benchmarks.run_overhead."""

import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from tabulate import tabulate

QCNN = Path(sys.executable).with_name("qcnn")


def tree_memory(root: psutil.Process) -> int:
    """Return the proportional memory of a process and all below it, in bytes."""
    total = 0
    for process in [root, *root.children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def timed(*command: str, folder: str) -> tuple[float, int]:
    """Run a command; return its wall time in seconds and the peak memory of all its processes in bytes."""
    start = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as running:
        peak = 0
        while running.poll() is None:
            peak = max(peak, tree_memory(psutil.Process(running.pid)))
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(0.5)
    if running.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {running.returncode}")
    return time.perf_counter() - start, peak


def main() -> None:
    """Print wall time and memory of the main job at defaults, and what make adds to a command."""
    root = str(Path(__file__).parents[1])
    with tempfile.TemporaryDirectory() as runs:
        seconds, peak = timed(str(QCNN), "run", "--runs", runs, folder=root)
    direct = min(timed(str(QCNN), "run", "--help", folder=root)[0] for _ in range(3))
    through_make = min(timed("make", "run", "ARGS=--help", folder=root)[0] for _ in range(3))
    rows = [
        ("main job at defaults, seconds", f"{seconds:.1f}"),
        ("all its processes together, GiB", f"{peak / 2**30:.2f}"),
        ("added by make once set up, seconds", f"{through_make - direct:.2f}"),
    ]
    print(tabulate(rows, tablefmt="plain", disable_numparse=True))


if __name__ == "__main__":
    main()
