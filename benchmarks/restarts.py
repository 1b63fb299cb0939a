"""Restart time after a worker is killed, and memory over 500 epochs: python -m benchmarks.restarts."""

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
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.local.processes import EventHandler
from qcnn.jobs.local.runner import run_processes

# Epoch after which the worker is killed.
KILL_EPOCH = 5


def measure_restart() -> list[tuple[str, str]]:
    """Kill worker 1 during training, and return the seconds until training continues, by phase."""
    config = from_mapping({"epochs": 300})
    times: dict[str, float] = {}

    def listen(process: str, event: Mapping[str, Any]) -> None:
        now = time.perf_counter()
        if "killed" in times:
            # Events that other processes sent before their termination still arrive.
            state = event.get("state")
            if state and (state == "loading TensorFlow" or "loading TensorFlow" in times):
                times.setdefault(state, now)
        elif event["event"] == "epoch" and event["epoch"] == KILL_EPOCH:
            times["killed"] = now
            _worker(1).kill()

    _train(config, listen)
    phases = [
        ("detection, restart of all processes", "killed", "loading TensorFlow"),
        ("import of TensorFlow", "loading TensorFlow", "waiting for other processes"),
        ("joining of workers, loading of checkpoint", "waiting for other processes", "compiling"),
        ("compilation, first epoch", "compiling", "training"),
        ("kill to first epoch", "killed", "training"),
    ]
    return [(f"{name}, s", f"{times[end] - times[start]:.1f}") for name, start, end in phases]


def measure_memory() -> list[tuple[str, str]]:
    """Train for 500 epochs, and return the memory of the chief at epochs 50 and 500."""
    config = from_mapping({"epochs": 500})
    rows: list[tuple[str, str]] = []

    def listen(process: str, event: Mapping[str, Any]) -> None:
        if event["event"] == "epoch" and event["epoch"] in (50, 500):
            rows.append((f"memory at epoch {event['epoch']}, MiB", f"{_worker(0).memory_info().rss / 2**20:.0f}"))

    _train(config, listen)
    return rows


def _worker(index: int) -> psutil.Process:
    (worker,) = [
        process
        for process in psutil.Process().children()
        if f'"index": {index}}}' in process.environ().get("TF_CONFIG", "")
    ]
    return worker


def _train(config: ExperimentConfig, listen: EventHandler) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        data.save(data.generate(config), Path(folder, "dataset"))
        paths = [str(Path(folder, name)) for name in ("dataset", "training", "logs")]
        run_processes(local_job(config, *paths), listen)


def main() -> None:
    """Print the results."""
    print(tabulate([*measure_restart(), *measure_memory()], tablefmt="plain", disable_numparse=True))


if __name__ == "__main__":
    main()
