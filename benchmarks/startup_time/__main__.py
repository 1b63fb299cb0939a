"""Prints the tables that the documents quote: python -m benchmarks.startup_time [--before FOLDER].

With the folder of an earlier tree of this project, each number stands beside that of the earlier one, in this
environment, measured in turns.
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

_HERE = Path(__file__).parents[2]
_PARTS = Path(__file__).with_name("parts.py")
_QCNN = "from qcnn.cli.main import main; main()"
TRIALS = 20
_STUDY = ("study", "--random", str(TRIALS), "--range", "learning_rate=0.001:0.1:log", "--epochs", "3")
_ALONE = ("--workers", "1", "--strategy", "none")
_TIMES = 3


@dataclasses.dataclass(frozen=True)
class Spent:
    """Seconds on the clock, and those of the processor in all processes."""

    clock: float
    processor: float


@dataclasses.dataclass(frozen=True)
class Tree:
    """A tree of this project; its modules come before those of the environment."""

    root: Path
    cache: Path

    def run(self, *words: str) -> tuple[Spent, str]:
        """Run Python, with a cache of its own; return what it took and what it printed."""
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        environment = {**os.environ, "PYTHONPATH": str(self.root), "XDG_CACHE_HOME": str(self.cache)}
        ended = subprocess.run(
            [sys.executable, *words], cwd=self.root, env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return Spent(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), ended.stdout

    def qcnn(self, *words: str) -> Spent:
        """Run a command of qcnn."""
        return self.run("-c", _QCNN, *words)[0]


def steps(runs: Path) -> list[Mapping[str, float]]:
    """Return the seconds of each step of each run of a folder, by its name, in the order of their start."""
    records = [json.loads(path.read_text()) for path in runs.rglob("run.json")]
    return [
        {step["name"]: step["seconds"] for step in record["steps"]}
        for record in sorted(records, key=lambda record: str(record["started"]))
    ]


def parts(tree: Tree) -> Iterator[tuple[str, Spent]]:
    """Yield what one process spends on the parts of a run, processor seconds."""
    yield "Python's start", tree.run("-c", "pass")[0]
    for name, seconds in json.loads(tree.run(str(_PARTS))[1].splitlines()[-1]).items():
        yield name, Spent(float("nan"), seconds)


def commands(tree: Tree) -> Iterator[tuple[str, Spent]]:
    """Yield what the commands take, and their steps, seconds on the clock."""
    yield "qcnn --help", tree.qcnn("--help")
    # Nothing is known of the machine yet.
    yield "qcnn plan, the first on a machine", tree.qcnn("plan")
    yield "qcnn plan", tree.qcnn("plan")
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder, "run")
        whole = tree.qcnn("run", "--runs", str(runs))
        yield "qcnn run at defaults", whole
        (own,) = steps(runs)
        for name, seconds in own.items():
            yield f"- {name}", Spent(seconds, float("nan"))
        yield "- the command itself", Spent(whole.clock - sum(own.values()), float("nan"))
        for what, words in (("one process each", _ALONE), ("two workers each", ())):
            runs = Path(folder, what)
            yield f"a study of {TRIALS} trials, {what}", tree.qcnn(*_STUDY, *words, "--runs", str(runs))
            first, *others = (sum(parts.values()) for parts in steps(runs))
            yield "- the first trial", Spent(first, float("nan"))
            yield "- each of the others", Spent(statistics.mean(others), float("nan"))


def _median(measured: Sequence[Spent]) -> Spent:
    return Spent(
        statistics.median(spent.clock for spent in measured), statistics.median(spent.processor for spent in measured)
    )


def _table(columns: Mapping[str, Mapping[str, Sequence[Spent]]], *kinds: str) -> str:
    """Return rows of what was measured, a column for each kind of seconds of each tree."""
    names = dict.fromkeys(name for measured in columns.values() for name in measured)
    rows = []
    for name in names:
        spent = [_median(measured[name]) if name in measured else None for measured in columns.values()]
        rows.append([name, *(_text(getattr(one, kind, None)) for one in spent for kind in kinds)])
    headers = ["", *(f"{label} {kind} s".strip() for label in columns for kind in kinds)]
    return tabulate(rows, headers, "github", disable_numparse=True)


def _text(seconds: float | None) -> str:
    return "" if seconds is None or math.isnan(seconds) else f"{seconds:.2f}"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description="Measure where the time of a run goes; prints Markdown.")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="an earlier tree of this project")
    before = parser.parse_args().before
    with tempfile.TemporaryDirectory() as cache:
        _print(
            {
                **({"before": Tree(before.absolute(), Path(cache, "before"))} if before else {}),
                "now" if before else "": Tree(_HERE, Path(cache, "now")),
            }
        )


def _print(trees: Mapping[str, Tree]) -> None:
    found: dict[str, dict[str, list[Spent]]] = {label: {} for label in trees}
    for _ in range(_TIMES):
        for label, tree in trees.items():
            for name, spent in parts(tree):
                found[label].setdefault(name, []).append(spent)
    print(_table(found, "processor"), end="\n\n")
    print(_table({label: {n: [s] for n, s in commands(tree)} for label, tree in trees.items()}, "clock", "processor"))


if __name__ == "__main__":
    main()
