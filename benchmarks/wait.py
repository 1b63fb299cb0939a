"""Where the time of a run goes, and of a study's trials: python -m benchmarks.wait."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tabulate import tabulate

QCNN = Path(sys.executable).with_name("qcnn")
TRIALS = 20
_STUDY = ("--random", str(TRIALS), "--range", "learning_rate=0.001:0.1:log", "--epochs", "3")
_ALONE = ("--workers", "1", "--strategy", "none")


def measured(*words: str) -> tuple[float, float]:
    """Run a command of qcnn; return the wall time and the processor time of all its processes, in seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([QCNN, *words], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def steps(runs: Path) -> list[Mapping[str, float]]:
    """Return the seconds of each step of each run of a folder, by its name, in the order of their start."""
    records = [json.loads(path.read_text()) for path in runs.rglob("run.json")]
    return [
        {step["name"]: step["seconds"] for step in record["steps"]}
        for record in sorted(records, key=lambda record: str(record["started"]))
    ]


def _row(what: str, seconds: float, processor: float | None = None) -> Sequence[str]:
    return what, f"{seconds:.1f}", "" if processor is None else f"{processor:.1f}"


def main() -> None:
    """Print wall time, and processor time where it can be told apart, of commands and of their parts."""
    rows = [_row("qcnn --help", *measured("--help"))]
    with tempfile.TemporaryDirectory() as folder:
        # A cache of its own, in which nothing is known of this machine.
        os.environ["XDG_CACHE_HOME"] = folder
        rows.append(_row("qcnn plan, the first on a machine", *measured("plan")))
        rows.append(_row("qcnn plan", *measured("plan")))
        runs = Path(folder, "run")
        rows.append(_row("qcnn run at defaults", *measured("run", "--runs", str(runs))))
        (parts,) = steps(runs)
        rows += [_row(f"- {name}", seconds) for name, seconds in parts.items()]
        for what, words in (("one process each", _ALONE), ("two workers each", ())):
            runs = Path(folder, what)
            spent = measured("study", "--runs", str(runs), *_STUDY, *words)
            rows.append(_row(f"a study of {TRIALS} trials of 3 epochs, {what}", *spent))
            first, *others = (sum(parts.values()) for parts in steps(runs))
            rows.append(_row("- the first trial", first))
            rows.append(_row("- each of the others", sum(others) / len(others)))
    print(tabulate(rows, ("", "seconds", "processor seconds"), disable_numparse=True))


if __name__ == "__main__":
    main()
