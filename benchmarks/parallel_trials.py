"""Time of studies by the number of trials at once: python -m benchmarks.parallel_trials [NAME ...].

NAME is a published study that needs no images of the user. Each study runs with one trial and with two trials at once,
in turns, and the table has medians. All runs of a study must have the same table of trials.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

from qcnn.studies.record import SELECT_STEP

QCNN = Path(sys.executable).with_name("qcnn")
STUDIES = ("four_digits", "qiskit_tutorial", "annni")
TURNS = 3


def run_timed(study: str, parallelism: int) -> tuple[float, str]:
    """Run a published study, and return its wall-clock seconds and its table of trials."""
    with tempfile.TemporaryDirectory() as folder:
        command = (QCNN, "study", "--config", f"published/{study}", "--parallelism", str(parallelism))
        start = time.perf_counter()
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        (run,) = Path(folder, "runs").iterdir()
        return seconds, (run / SELECT_STEP / "results.csv").read_text().replace(str(run), "")


def main() -> None:
    """Print a row per study."""
    rows = []
    for study in sys.argv[1:] or STUDIES:
        measured = [[run_timed(study, parallelism) for parallelism in (1, 2)] for _ in range(TURNS)]
        if len({table for turn in measured for _, table in turn}) > 1:
            raise SystemExit(f"{study}: the tables of trials differ")
        one, two = (statistics.median(turn[index][0] for turn in measured) for index in (0, 1))
        ratio = statistics.median(turn[0][0] / turn[1][0] for turn in measured)
        rows.append((study, len(measured[0][0][1].splitlines()) - 1, one, two, ratio))
        print(tabulate(rows[-1:], tablefmt="plain", floatfmt=".2f"), file=sys.stderr)
    print(tabulate(rows, ["study", "trials", "one at a time, s", "two at once, s", "ratio"], floatfmt=".2f"))


if __name__ == "__main__":
    main()
