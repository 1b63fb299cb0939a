"""Measure the time of commands and of the parts of a run: python -m benchmarks.startup_time.

With `--before FOLDER`, the folder of an earlier source tree, both trees are measured alternately in this environment.
The tables then have columns for both trees.
"""

import argparse
import dataclasses
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tabulate import tabulate

_ROOT = Path(__file__).parents[2]
_PARTS = Path(__file__).with_name("parts.py")
_QCNN = "from qcnn.cli.main import main; main()"
TRIALS = 20
_STUDY = ("study", "--random", str(TRIALS), "--range", "learning_rate=0.001:0.1:log", "--epochs", "3")
_ONE_PROCESS = ("--workers", "1", "--strategy", "none")
_REPEATS = 3
_TITLES = {"wall_clock": "wall-clock", "cpu": "CPU"}


@dataclasses.dataclass(frozen=True)
class TimeSpent:
    """Wall-clock seconds, and CPU seconds of all processes."""

    wall_clock: float
    cpu: float


@dataclasses.dataclass(frozen=True)
class SourceTree:
    """Source tree of this project, whose modules precede those of the environment on PYTHONPATH."""

    root: Path
    cache: Path

    def run(self, *arguments: str) -> tuple[TimeSpent, str]:
        """Run Python with the cache of this tree, and return the time and the output."""
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        environment = {**os.environ, "PYTHONPATH": str(self.root), "XDG_CACHE_HOME": str(self.cache)}
        process = subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return TimeSpent(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), process.stdout

    def qcnn(self, *arguments: str) -> TimeSpent:
        """Run a command of qcnn."""
        return self.run("-c", _QCNN, *arguments)[0]


def steps(runs: Path) -> list[Mapping[str, float]]:
    """Return the seconds of the steps of all runs in a folder, by step name.

    Runs are ordered by start time.
    """
    records = [json.loads(path.read_text()) for path in runs.rglob("run.json")]
    return [
        {step["name"]: step["seconds"] for step in record["steps"]}
        for record in sorted(records, key=lambda record: str(record["started"]))
    ]


def parts(tree: SourceTree) -> Iterator[tuple[str, TimeSpent]]:
    """Yield the parts of a run in one process, with CPU seconds."""
    yield "start of Python", tree.run("-c", "pass")[0]
    for name, seconds in json.loads(tree.run(str(_PARTS))[1].splitlines()[-1]).items():
        yield name, TimeSpent(float("nan"), seconds)


def commands(tree: SourceTree) -> Iterator[tuple[str, TimeSpent]]:
    """Yield commands with their times, and steps with wall-clock seconds."""
    yield "qcnn --help", tree.qcnn("--help")
    # The first call benchmarks the machine.
    yield "qcnn plan, first on a machine", tree.qcnn("plan")
    yield "qcnn plan", tree.qcnn("plan")
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder, "run")
        total = tree.qcnn("run", "--runs", str(runs))
        yield "qcnn run, defaults", total
        (step_seconds,) = steps(runs)
        for name, seconds in step_seconds.items():
            yield f"- {name}", TimeSpent(seconds, float("nan"))
        yield "- rest of the command", TimeSpent(total.wall_clock - sum(step_seconds.values()), float("nan"))
        for label, options in (("1 process each", _ONE_PROCESS), ("2 workers each", ())):
            runs = Path(folder, label)
            yield f"study of {TRIALS} trials, {label}", tree.qcnn(*_STUDY, *options, "--runs", str(runs))
            first, *others = (sum(parts.values()) for parts in steps(runs))
            yield "- first trial", TimeSpent(first, float("nan"))
            yield "- each other trial", TimeSpent(statistics.mean(others), float("nan"))


def _median(measured: Sequence[TimeSpent]) -> TimeSpent:
    return TimeSpent(
        statistics.median(spent.wall_clock for spent in measured), statistics.median(spent.cpu for spent in measured)
    )


def _table(columns: Mapping[str, Mapping[str, Sequence[TimeSpent]]], *attributes: str) -> str:
    """Return a table with a row per measurement, and a column per tree and attribute of `TimeSpent`."""
    names = dict.fromkeys(name for measured in columns.values() for name in measured)
    rows = []
    for name in names:
        spent = [_median(measured[name]) if name in measured else None for measured in columns.values()]
        rows.append([name, *(_text(getattr(one, attribute, None)) for one in spent for attribute in attributes)])
    headers = ["", *(f"{label} {_TITLES[attribute]} s".strip() for label in columns for attribute in attributes)]
    return tabulate(rows, headers, "github", disable_numparse=True)


def _text(seconds: float | None) -> str:
    return "" if seconds is None or math.isnan(seconds) else f"{seconds:.2f}"


def main() -> None:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(
        description="Measure the time of commands and of the parts of a run. Prints Markdown."
    )
    parser.add_argument(
        "--before", type=Path, metavar="FOLDER", help="Folder of an earlier source tree of this project."
    )
    before = parser.parse_args().before
    with tempfile.TemporaryDirectory() as cache:
        _print(
            {
                **({"before": SourceTree(before.absolute(), Path(cache, "before"))} if before else {}),
                "now" if before else "": SourceTree(_ROOT, Path(cache, "now")),
            }
        )


def _print(trees: Mapping[str, SourceTree]) -> None:
    results: dict[str, dict[str, list[TimeSpent]]] = {label: {} for label in trees}
    for _ in range(_REPEATS):
        for label, tree in trees.items():
            for name, spent in parts(tree):
                results[label].setdefault(name, []).append(spent)
    print(_table(results, "cpu"), end="\n\n")
    print(_table({label: {n: [s] for n, s in commands(tree)} for label, tree in trees.items()}, "wall_clock", "cpu"))


if __name__ == "__main__":
    main()
