"""Comparison of distribution strategies: python -m benchmarks.strategies. Prints Markdown.

Each strategy trains `deep` on 12 qubits with default settings in local processes, with a different seed in each run.
Network traffic is that of the loopback interface per update, after the selection of an initialization. It is correct
only if no other process uses this interface. Results are medians of all runs.
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
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.local.runner import run_processes
from qcnn.model import checkpoints
from qcnn.model.history import epoch_seconds, trial_epochs
from qcnn.planning.machine import steps_of

FIELDS: dict[str, Any] = {"model": "deep", "qubits": 12}
STRATEGIES: dict[str, dict[str, Any]] = {
    "none": {"strategy": "none", "workers": 1},
    "multi_worker, 1 worker": {"workers": 1},
    "multi_worker, 2 workers": {"workers": 2},
    "multi_worker, chief and 1 worker": {"workers": 2, "options": {"chief": 1}},
    "mirrored, 2 devices": {"strategy": "mirrored", "workers": 1, "options": {"devices": 2}},
    "central_storage, 2 devices": {"strategy": "central_storage", "workers": 1, "options": {"devices": 2}},
    "parameter_server, 2 workers, 1 ps": {"strategy": "parameter_server", "workers": 2},
}


class NetworkTraffic:
    """Event handler that records the bytes sent over the loopback interface at the end of each epoch."""

    def __init__(self) -> None:
        self.bytes_sent: list[int] = []

    def __call__(self, _: str, event: Mapping[str, Any]) -> None:
        """Record the traffic if a process reports an epoch."""
        if event["event"] == "epoch":
            self.bytes_sent.append(psutil.net_io_counters(pernic=True)["lo"].bytes_sent)


def train(fields: Mapping[str, Any], seed: int) -> tuple[float, float, float, float]:
    """Train, and return seconds per epoch, MSE on fresh samples, bytes per update and mean staleness."""
    config, traffic = from_mapping({**FIELDS, **fields, "seed": seed}), NetworkTraffic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data.save(data.generate(config), folder / "dataset")
        job = local_job(config, *(str(folder / name) for name in ("dataset", "training", "logs")))
        with contextlib.redirect_stdout(sys.stderr):
            run_processes(job, traffic)
        saved = checkpoints.load_latest(folder / "training" / checkpoints.FOLDER)
        history = saved.history if saved else ()
    if saved is None or saved.fresh_mse is None:
        raise SystemExit(f"A training run is incomplete. Given: {dict(fields)}")
    # The epochs of the selected initialization are reported together.
    first = trial_epochs(config) if config.options.num_initializations > 1 else 1
    updates = steps_of(config)[0] * (len(traffic.bytes_sent) - first)
    traffic_per_update = (traffic.bytes_sent[-1] - traffic.bytes_sent[first - 1]) / updates
    staleness = statistics.fmean(epoch.staleness for epoch in history)
    return epoch_seconds(history), saved.fresh_mse, traffic_per_update, staleness


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Compare strategies. Prints Markdown.")
    parser.add_argument("--runs", type=int, default=3, help="Number of runs of each strategy, with different seeds.")
    runs = parser.parse_args().runs
    # Runs of the strategies alternate, so that other load affects all strategies.
    results: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in STRATEGIES}
    for seed in range(runs):
        for name, fields in STRATEGIES.items():
            results[name].append(train(fields, seed))
    rows = []
    reference = statistics.median(run[0] for run in results["none"])
    for name, measured in results.items():
        seconds, _, traffic, staleness = (statistics.median(values) for values in zip(*measured, strict=True))
        errors = " ".join(f"{values[1]:.4f}" for values in measured)
        has_network = sum(from_mapping({**FIELDS, **STRATEGIES[name]}).replicas.values()) > 1
        rows.append(
            [
                name,
                f"{seconds:.3f}",
                f"{seconds / reference:.2f}",
                errors,
                f"{traffic / 1000:.1f}" if has_network else "-",
                f"{staleness:.2f}" if staleness else "-",
            ]
        )
    headers = (
        "strategy",
        "epoch, s",
        "relative to none",
        f"fresh MSE, seeds 0-{runs - 1}",
        "kB per update",
        "staleness",
    )
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
