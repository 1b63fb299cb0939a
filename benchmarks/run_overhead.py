"""Time and memory of `make run`: python -m benchmarks.run_overhead."""

import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from tabulate import tabulate

QCNN = Path(sys.executable).with_name("qcnn")
SMALL = ("--qubits", "4", "--rounds", "50", "--epochs", "2", "--batch-size", "16")
WORKERS = (2, 6)


def tree_memory(root: psutil.Process) -> int:
    """Return the proportional set size of a process and its descendants, in bytes."""
    total = 0
    for process in [root, *root.children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def run_timed(*command: str, folder: str) -> tuple[float, int]:
    """Run a command, and return its wall-clock seconds and the peak memory of its processes in bytes."""
    start = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, tree_memory(psutil.Process(process.pid)))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} exited with code {process.returncode}")
    return time.perf_counter() - start, peak


def main() -> None:
    """Print time and memory of a default run, memory by workers, and the time that make adds to a command."""
    root = str(Path(__file__).parents[1])
    with tempfile.TemporaryDirectory() as runs:
        seconds, peak = run_timed(str(QCNN), "run", "--runs", runs, folder=root)
        # A bound for all networks: few amplitudes, and no epoch after the compilation.
        few, many = (
            run_timed(str(QCNN), "run", "--runs", runs, *SMALL, "--workers", str(workers), folder=root)[1]
            for workers in WORKERS
        )
    of_worker = (many - few) / (WORKERS[1] - WORKERS[0])
    direct = min(run_timed(str(QCNN), "run", "--help", folder=root)[0] for _ in range(3))
    through_make = min(run_timed("make", "run", "ARGS=--help", folder=root)[0] for _ in range(3))
    rows = [
        ("run with default settings, seconds", f"{seconds:.1f}"),
        ("peak memory of all its processes, GiB", f"{peak / 2**30:.2f}"),
        ("memory of each further worker of a small network, GiB", f"{of_worker / 2**30:.3f}"),
        ("memory of such a run without workers, GiB", f"{(few - WORKERS[0] * of_worker) / 2**30:.2f}"),
        ("added by make after setup, seconds", f"{through_make - direct:.2f}"),
    ]
    print(tabulate(rows, tablefmt="plain", disable_numparse=True))


if __name__ == "__main__":
    main()
