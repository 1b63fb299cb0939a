"""Speedup by number of workers: python -m benchmarks.workers [--features] [--simulator statevector].

Prints Markdown. Samples are generated excitations, or with --features rows of a file with one feature per qubit. Each
worker runs on one core with one thread. CPU time is that of the busiest worker per epoch. Unlike
wall-clock time, it does not depend on other load or on the number of available cores.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from qcnn.process.local_ports import reserved_ports

QUBITS = 16
BATCHES = (32, 64, 128, 256)
WORKERS = (1, 2, 4)
# Runs of each row. The rows alternate, so that other load affects all rows.
RUNS = 2
# 992 samples.
ROUNDS = 62
FIELDS: dict[str, Any] = {"qubits": QUBITS, "model": "deep", "epochs": 4}
OPTIONS = {"num_initializations": 1, "profile_batches": "", "checkpoint_seconds": 3600.0}


def write_features(path: Path) -> None:
    """Write as many rows of uniform features as there are generated samples, with the sign of their cosines' sum."""
    features = np.random.default_rng(0).uniform(0, np.pi, (ROUNDS * QUBITS, QUBITS))
    names = [*(f"x{number}" for number in range(QUBITS)), "label"]
    rows = np.column_stack([features, np.where(np.cos(features).sum(axis=1) >= 0, 1, -1)])
    np.savetxt(path, rows, fmt=[*["%.9g"] * QUBITS, "%d"], delimiter=",", header=",".join(names), comments="")


def measure(batch: int, workers: int, data: dict[str, Any]) -> tuple[float, float]:
    """Train in separate processes, and return seconds per epoch and CPU seconds of the busiest worker.

    Args:
        batch: Batch size.
        workers: Number of workers.
        data: Fields of the data and of the simulator.
    """
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder, reserved_ports(workers) as ports:
        addresses = [f"127.0.0.1:{port}" for port in ports]
        processes = []
        for index in range(workers):
            cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            fields = {**FIELDS, **data, "batch_size": batch, "workers": workers, "options": OPTIONS}
            command = [sys.executable, "-m", "benchmarks.workers", "--train", json.dumps(fields), "--folder", folder]
            command += ["--core", str(cores[index % len(cores)])]
            environment = {**os.environ, "TF_CONFIG": json.dumps(cluster)} if workers > 1 else None
            processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"A worker failed. Given: batch {batch}, {workers} workers")
    results = [json.loads(text.splitlines()[-1]) for text in outputs]
    return max(result["seconds"] for result in results), max(result["cpu_seconds"] for result in results)


def train_once(fields: dict[str, Any], folder: Path, core: int) -> None:
    """Train on one core, and print wall-clock and CPU seconds of epochs after the first as JSON.

    Args:
        fields: Fields of the experiment.
        folder: Folder of the training run.
        core: Index of the core.
    """
    # Set before TensorFlow counts the available cores.
    os.sched_setaffinity(0, {core})
    from qcnn.process.library_loading import load_tensorflow

    load_tensorflow()
    from qcnn import data
    from qcnn.experiment.parsing import from_mapping
    from qcnn.trainer.distribution.roles import parse_cluster
    from qcnn.trainer.loop import train

    ends: list[tuple[float, float]] = []

    def listener(kind: str, **values: Any) -> None:
        if values.get("state") == "training":
            ends.append((time.perf_counter(), time.process_time()))

    config = from_mapping(fields)
    dataset = data.generate(config)
    config = data.with_file_metadata(config, dataset)
    train(config, dataset, folder, cluster=parse_cluster(os.environ), listener=listener)
    seconds, cpu_seconds = zip(*_differences(ends), strict=True)
    print(json.dumps({"seconds": statistics.median(seconds), "cpu_seconds": statistics.median(cpu_seconds)}))


def _differences(ends: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    for before, after in itertools.pairwise(ends):
        yield after[0] - before[0], after[1] - before[1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure the speedup with the number of workers. Prints Markdown.")
    parser.add_argument("--features", action="store_true", help="Train on rows of a file instead of excitations.")
    parser.add_argument("--simulator", default="auto", help="Simulator. Default: auto.")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train_once(json.loads(arguments.train), arguments.folder, arguments.core)
        return
    settings = list(itertools.product(BATCHES, WORKERS))
    results: dict[tuple[int, int], list[tuple[float, float]]] = {setting: [] for setting in settings}
    with tempfile.TemporaryDirectory() as folder:
        data: dict[str, Any] = {"simulator": arguments.simulator, "rounds": ROUNDS}
        if arguments.features:
            path = Path(folder, "features.csv")
            write_features(path)
            data = {"simulator": arguments.simulator, "data": str(path), "encoding": "ry"}
        for _, setting in itertools.product(range(RUNS), settings):
            results[setting].append(measure(*setting, data))
    cores = len(os.sched_getaffinity(0))
    rows = []
    for batch, workers in settings:
        # The fastest run, because other load can only slow a run.
        seconds, cpu_seconds = (min(values) for values in zip(*results[batch, workers], strict=True))
        one_seconds, one_cpu_seconds = (min(values) for values in zip(*results[batch, 1], strict=True))
        has_enough_cores = workers <= cores
        rows.append(
            (
                batch,
                workers,
                f"{seconds:.2f}" if has_enough_cores else "",
                f"{one_seconds / seconds:.2f} x" if has_enough_cores else "",
                f"{cpu_seconds:.2f}",
                f"{one_cpu_seconds / cpu_seconds:.2f} x",
            )
        )
    headers = ("batch", "workers", "epoch, s", "speedup", "CPU time of the busiest worker, s", "speedup")
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
