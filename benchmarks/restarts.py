"""What a lost worker costs, and what 500 epochs leave in memory: python -m benchmarks.restarts."""

import contextlib
import io
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from tabulate import tabulate

from qcnn import data
from qcnn.components.training_job import local_job
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping
from qcnn.jobs.local.processes import EventHandler
from qcnn.jobs.local.runner import run_processes

KILLED_AFTER = 5


def restart() -> list[tuple[str, str]]:
    """Kill worker 1 in the middle of a default training; return the seconds until training goes on."""
    config = from_mapping({"epochs": 300})
    times: dict[str, float] = {}

    def listen(process: str, event: Mapping[str, Any]) -> None:
        now = time.perf_counter()
        if "killed" in times:
            # What the others sent before they were ended still arrives.
            state = event.get("state")
            if state and (state == "loading TensorFlow" or "loading TensorFlow" in times):
                times.setdefault(state, now)
        elif event["event"] == "epoch" and event["epoch"] == KILLED_AFTER:
            times["killed"] = now
            _worker(1).kill()

    _train(config, listen)
    parts = [
        ("noticed, all ended and started again", "killed", "loading TensorFlow"),
        ("TensorFlow loaded", "loading TensorFlow", "waiting for other processes"),
        ("workers joined, checkpoint read", "waiting for other processes", "compiling"),
        ("compiled, first epoch trained", "compiling", "training"),
        ("kill to first epoch", "killed", "training"),
    ]
    return [(f"{name}, s", f"{times[end] - times[start]:.1f}") for name, start, end in parts]


def memory() -> list[tuple[str, str]]:
    """Train 500 epochs; return the memory of the chief at 50 and at 500."""
    config = from_mapping({"epochs": 500})
    rows: list[tuple[str, str]] = []

    def listen(process: str, event: Mapping[str, Any]) -> None:
        if event["event"] == "epoch" and event["epoch"] in (50, 500):
            rows.append((f"memory at epoch {event['epoch']}, MiB", f"{_worker(0).memory_info().rss / 2**20:.0f}"))

    _train(config, listen)
    return rows


def _worker(index: int) -> psutil.Process:
    (found,) = [
        process
        for process in psutil.Process().children()
        if f'"index": {index}}}' in process.environ().get("TF_CONFIG", "")
    ]
    return found


def _train(config: ExperimentConfig, listen: EventHandler) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        data.save(data.generate(config), Path(folder, "dataset"))
        paths = [str(Path(folder, name)) for name in ("dataset", "training", "logs")]
        run_processes(local_job(config, *paths), listen)


def main() -> None:
    """Print both."""
    print(tabulate([*restart(), *memory()], tablefmt="plain", disable_numparse=True))


if __name__ == "__main__":
    main()
