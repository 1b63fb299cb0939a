"""Strategies beside each other: python -m benchmarks.strategies. Prints the table that docs/strategies.md quotes.

Each trains `deep` on 12 qubits with the default words, by processes of this machine, whose seeds are those of the runs.
Bytes are those that pass the loopback interface once it is known which start goes on, by update: of this and of nothing
else, if nothing else runs. Medians of all runs.
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from tabulate import tabulate

from qcnn import data
from qcnn.components.training_job import local_job
from qcnn.experiment_io import from_mapping
from qcnn.jobs.local.runner import run_processes
from qcnn.model import checkpoints
from qcnn.model.history import epoch_seconds, trial_epochs
from qcnn.planning.machine import steps_of

WORDS: dict[str, Any] = {"model": "deep", "qubits": 12}
STRATEGIES: dict[str, dict[str, Any]] = {
    "none": {"strategy": "none", "workers": 1},
    "multi_worker, 1 worker": {"workers": 1},
    "multi_worker, 2 workers": {"workers": 2},
    "multi_worker, chief and 1 worker": {"workers": 2, "options": {"chief": 1}},
    "mirrored, 2 devices": {"strategy": "mirrored", "workers": 1, "options": {"devices": 2}},
    "central_storage, 2 devices": {"strategy": "central_storage", "workers": 1, "options": {"devices": 2}},
    "parameter_server, 2 workers, 1 ps": {"strategy": "parameter_server", "workers": 2},
}


class Traffic:
    """Notes what has passed the loopback interface after each epoch that the chief reports."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, _: str, event: Mapping[str, Any]) -> None:
        """Take note of an event of a process."""
        if event["event"] == "epoch":
            self.seen.append(psutil.net_io_counters(pernic=True)["lo"].bytes_sent)


def train(words: Mapping[str, Any], seed: int) -> tuple[float, float, float, float]:
    """Return seconds an epoch, error on fresh samples, bytes an update and the mean staleness of a training."""
    config, traffic = from_mapping({**WORDS, **words, "seed": seed}), Traffic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data.save(data.generate(config), folder / "dataset")
        job = local_job(config, *(str(folder / name) for name in ("dataset", "training", "logs")))
        with contextlib.redirect_stdout(sys.stderr):
            run_processes(job, traffic)
        saved = checkpoints.load_latest(folder / "training" / checkpoints.FOLDER)
    if saved is None or saved.fresh_mse is None:
        raise SystemExit(f"a training has not ended. Given: {dict(words)}")
    # The epochs of the start that goes on are reported at once.
    first = trial_epochs(config) if config.options.num_initializations > 1 else 1
    updates = steps_of(config)[0] * (len(traffic.seen) - first)
    moved = (traffic.seen[-1] - traffic.seen[first - 1]) / updates
    staleness = statistics.fmean(epoch.staleness for epoch in saved.history)
    return epoch_seconds(saved.history), saved.fresh_mse, moved, staleness


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Compare strategies; prints Markdown.")
    parser.add_argument("--runs", type=int, default=3, help="trainings of each, by other seeds")
    runs = parser.parse_args().runs
    # In turns: whatever else slows the machine slows all of them.
    found: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in STRATEGIES}
    for seed in range(runs):
        for name, words in STRATEGIES.items():
            found[name].append(train(words, seed))
    rows = []
    reference = statistics.median(each[0] for each in found["none"])
    for name, each in found.items():
        seconds, _, moved, staleness = (statistics.median(values) for values in zip(*each, strict=True))
        errors = " ".join(f"{values[1]:.4f}" for values in each)
        is_network = sum(from_mapping({**WORDS, **STRATEGIES[name]}).replicas.values()) > 1
        rows.append(
            [
                name,
                f"{seconds:.3f}",
                f"{seconds / reference:.2f}",
                errors,
                f"{moved / 1000:.1f}" if is_network else "-",
                f"{staleness:.2f}" if staleness else "-",
            ]
        )
    headers = ("strategy", "epoch, s", "of none", f"fresh MSE, seeds 0-{runs - 1}", "kB an update", "staleness")
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
