"""Epoch time and memory of `qcnn.trainer.loop.train`: python -m benchmarks.epochs. Prints Markdown.

Only one process runs at a time. An epoch consists of training and validation. Its time is the median of all epochs
after the first, without a profile. Predictions are compared with the fastest epoch. Memory is in addition to the memory
of TensorFlow itself.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tabulate import tabulate

from benchmarks.frameworks.launch import python_of, run_command

EPOCHS = 8
# Name, fields of the experiment, and maximum seconds per epoch.
EPOCH_ROWS: tuple[tuple[str, dict[str, Any], float], ...] = (
    ("23 qubits, 1,000 samples, batch 32", {"qubits": 23, "rounds": 43}, 0.15),
    ("1,024 qubits, 1,024 samples, batch 32", {"qubits": 1024, "rounds": 1}, 0.2),
    ("23 qubits, 1,000,000 samples, batch 4,096", {"qubits": 23, "rounds": 43478, "batch_size": 4096}, 3.0),
)
PREDICTED: tuple[dict[str, Any], ...] = (
    {"qubits": 8, "rounds": 125},
    {"qubits": 12, "rounds": 83},
    {"qubits": 16, "rounds": 62},
    {"qubits": 20, "rounds": 50},
    {"qubits": 23, "rounds": 43},
    {"qubits": 64, "rounds": 16},
    {"qubits": 1024, "rounds": 1},
    {"qubits": 8, "rounds": 125, "model": "deep"},
    {"qubits": 12, "rounds": 83, "model": "deep"},
    {"qubits": 16, "rounds": 5, "model": "deep"},
    {"qubits": 12, "rounds": 83, "simulator": "statevector"},
    {"qubits": 12, "rounds": 16, "simulator": "tfq"},
)
# Memory limits for simulated states, GiB. At 20 qubits, the states of all samples take 1.7 GiB.
MEMORY_LIMITS = (1.0, 0.2)
AT_20 = {"qubits": 20, "rounds": 2, "simulator": "statevector", "epochs": 4}


def measure(fields: dict[str, Any]) -> dict[str, float]:
    """Train in a separate process, and return the values that `train_once` prints."""
    python = python_of("tfq") if fields.get("simulator") == "tfq" else sys.executable
    return run_command([python, "-m", "benchmarks.epochs", "--train", json.dumps(fields)])


def train_once(fields: dict[str, Any]) -> None:
    """Train, and print epoch seconds, memory in MB and the predicted seconds as JSON."""
    from qcnn.process.library_loading import load_tensorflow, start_compiler

    load_tensorflow()
    start_compiler()
    base = _peak_megabytes()
    from qcnn import data
    from qcnn.experiment.parsing import from_mapping
    from qcnn.planning.machine_benchmark import benchmark_machine
    from qcnn.planning.plan import count, predict
    from qcnn.trainer.loop import train

    options = {"checkpoint_seconds": 5.0, "profile_batches": "", **fields.pop("options", {})}
    fixed = {"workers": 1, "strategy": "none", "batch_size": 32, "epochs": EPOCHS}
    config = from_mapping({**fixed, **fields, "options": {"num_initializations": 1, **options}})
    with tempfile.TemporaryDirectory() as folder:
        history = train(config, data.generate(config), Path(folder))
    peak = _peak_megabytes()
    # After training, because the benchmark of the machine takes memory.
    predicted = predict(config, count(config), benchmark_machine()).chosen
    print(
        json.dumps(
            {
                "first": history[0].seconds,
                "epoch": statistics.median(epoch.seconds for epoch in history[1:]),
                # A plan assumes an idle machine.
                "fastest": min(epoch.seconds for epoch in history[1:]),
                "megabytes": peak - base,
                "peak": peak,
                "predicted": predicted,
            }
        )
    )


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def import_cost(module: str) -> tuple[float, float]:
    """Return the seconds and MB that a process takes to import a module, medians of 5."""
    code = f"import {module}, resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    seconds, megabytes = [], []
    for _ in range(5):
        start = time.perf_counter()
        process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        seconds.append(time.perf_counter() - start)
        megabytes.append(int(process.stdout.split()[-1]) / 1e3)
    return statistics.median(seconds), statistics.median(megabytes)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Measure epochs. Prints Markdown.")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train_once(json.loads(arguments.train))
        return
    rows = []
    for name, fields, allowed in EPOCH_ROWS:
        measured = measure(fields)
        rows.append(
            (name, f"{measured['epoch']:.3f}", allowed, f"{measured['first']:.1f}", f"{measured['megabytes']:.0f}")
        )
    print(tabulate(rows, ("", "epoch, s", "allowed", "first epoch, s", "MB above TensorFlow"), tablefmt="github"))
    predicted = []
    for fields in PREDICTED:
        measured = measure(fields)
        name = f"{fields.get('model', 'hybrid')} n = {fields['qubits']}, {fields.get('simulator', 'auto')}"
        ratio = measured["predicted"] / measured["fastest"]
        predicted.append((name, f"{measured['predicted']:.3g}", f"{measured['fastest']:.3g}", f"{ratio:.2f}"))
    print()
    print(
        tabulate(predicted, ("", "predicted, s", "fastest epoch, s", "ratio"), tablefmt="github", disable_numparse=True)
    )
    limits = []
    for gib in MEMORY_LIMITS:
        measured = measure({**AT_20, "options": {"simulator_memory_gib": gib}})
        limits.append((gib, f"{measured['megabytes']:.0f}", f"{measured['peak']:.0f}", f"{measured['epoch']:.1f}"))
    print()
    columns = ("simulator_memory_gib, 20 qubits", "MB above TensorFlow", "MB in total", "epoch of 2 steps, s")
    print(tabulate(limits, columns, tablefmt="github"))
    imported = ("tensorflow", *(f"{value:.3g}" for value in import_cost("tensorflow")))
    print()
    print(tabulate([imported], ("imported", "s", "MB"), tablefmt="github"))


if __name__ == "__main__":
    main()
