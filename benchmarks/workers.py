"""What more workers gain where states are many: python -m benchmarks.workers. Prints the table that docs quote.

Each worker has one core, and so one thread. Processor time is what a worker itself works in an epoch, so it holds on a
busy machine too, and for more workers than there are cores.
"""

import argparse
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tabulate import tabulate

QUBITS = 16
BATCHES = (32, 64, 128, 256)
WORKERS = (1, 2, 4)
# Runs of each row, in turn with the others, so that all meet the same machine.
RUNS = 2
# 992 samples.
WORDS: dict[str, Any] = {"qubits": QUBITS, "rounds": 62, "model": "deep", "simulator": "statevector", "epochs": 4}
OPTIONS = {"num_initializations": 1, "profile_batches": "", "checkpoint_seconds": 3600.0}


def measure(batch: int, workers: int) -> tuple[float, float]:
    """Train in processes of their own; return seconds of an epoch, and the most of one worker's processor time."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(workers)]
    addresses = [f"127.0.0.1:{server.getsockname()[1]}" for server in held]
    for server in held:
        server.close()
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for index in range(workers):
            cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            words = {**WORDS, "batch_size": batch, "workers": workers, "options": OPTIONS}
            command = [sys.executable, "-m", "benchmarks.workers", "--train", json.dumps(words), "--folder", folder]
            command += ["--core", str(cores[index % len(cores)])]
            environment = {**os.environ, "TF_CONFIG": json.dumps(cluster)} if workers > 1 else None
            started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        ended = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"a worker failed. Given: batch {batch}, {workers} workers")
    found = [json.loads(text.splitlines()[-1]) for text in ended]
    return max(each["seconds"] for each in found), max(each["processor"] for each in found)


def train_once(words: dict[str, Any], folder: Path, core: int) -> None:
    """Train here, on one core, and print what an epoch after the first takes."""
    # Before TensorFlow counts the cores.
    os.sched_setaffinity(0, {core})
    from qcnn.startup import load_tensorflow

    load_tensorflow()
    from qcnn import data
    from qcnn.experiment_io import from_mapping
    from qcnn.trainer.distribution.roles import parse_cluster
    from qcnn.trainer.loop import train

    ends: list[tuple[float, float]] = []

    def listener(kind: str, **values: Any) -> None:
        if values.get("state") == "training":
            ends.append((time.perf_counter(), time.process_time()))

    config = from_mapping(words)
    train(config, data.generate(config), folder, cluster=parse_cluster(os.environ), listener=listener)
    seconds, processor = zip(*_differences(ends), strict=True)
    print(json.dumps({"seconds": statistics.median(seconds), "processor": statistics.median(processor)}))


def _differences(ends: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    for before, after in itertools.pairwise(ends):
        yield after[0] - before[0], after[1] - before[1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure what more workers gain; prints Markdown.")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train_once(json.loads(arguments.train), arguments.folder, arguments.core)
        return
    kinds = list(itertools.product(BATCHES, WORKERS))
    found: dict[tuple[int, int], list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for _, kind in itertools.product(range(RUNS), kinds):
        found[kind].append(measure(*kind))
    cores = len(os.sched_getaffinity(0))
    rows = []
    for batch, workers in kinds:
        # The shortest: what else runs on the machine only ever adds.
        seconds, processor = (min(values) for values in zip(*found[batch, workers], strict=True))
        one_seconds, one_processor = (min(values) for values in zip(*found[batch, 1], strict=True))
        together = workers <= cores
        rows.append(
            (
                batch,
                workers,
                f"{seconds:.2f}" if together else "",
                f"{one_seconds / seconds:.2f} x" if together else "",
                f"{processor:.2f}",
                f"{one_processor / processor:.2f} x",
            )
        )
    headers = ("batch", "workers", "epoch, s", "gain", "processor time of a worker, s", "gain")
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
