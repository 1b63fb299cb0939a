"""Epochs through the real train(): python -m benchmarks.epochs. Prints the tables that the documents quote.

Each process has the machine to itself; an epoch holds training and validation, and is the median of all but the
first, without a profile; beside what was predicted stands the least. Memory is what the process takes above
TensorFlow itself.
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

from benchmarks.frameworks.launch import report_of

EPOCHS = 8
# Name, words of the experiment, seconds that an epoch may take.
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
# A budget for states, GiB, and what the whole process took: at 20 qubits the states of all samples take 1.7 GiB.
BUDGETS = (1.0, 0.2)
AT_20 = {"qubits": 20, "rounds": 2, "simulator": "statevector", "epochs": 4}
_IMPORTS = ("tensorflow", "tensorflow_quantum")


def measure(words: dict[str, Any]) -> dict[str, float]:
    """Train in a process of its own; return seconds of the first and of a typical epoch, GiB, and the prediction."""
    return report_of([sys.executable, "-m", "benchmarks.epochs", "--train", json.dumps(words)])


def train_once(words: dict[str, Any]) -> None:
    """Train here and print what `measure` returns."""
    from qcnn.startup import load_tensorflow, start_compiler

    load_tensorflow()
    start_compiler()
    alone = _peak_megabytes()
    from qcnn import data
    from qcnn.experiment_io import from_mapping
    from qcnn.planning.machine_benchmark import benchmark_machine
    from qcnn.planning.plan import count, predict
    from qcnn.trainer.loop import train

    options = {"checkpoint_seconds": 5.0, "profile_batches": "", **words.pop("options", {})}
    fixed = {"workers": 1, "strategy": "none", "batch_size": 32, "epochs": EPOCHS}
    config = from_mapping({**fixed, **words, "options": {"num_initializations": 1, **options}})
    with tempfile.TemporaryDirectory() as folder:
        history = train(config, data.generate(config), Path(folder))
    peak = _peak_megabytes()
    # Predicted after the training, so that the memory measured is the training's alone.
    predicted = predict(config, count(config), benchmark_machine()).chosen
    print(
        json.dumps(
            {
                "first": history[0].seconds,
                "epoch": statistics.median(epoch.seconds for epoch in history[1:]),
                # As a plan takes the machine for idle.
                "least": min(epoch.seconds for epoch in history[1:]),
                "megabytes": peak - alone,
                "peak": peak,
                "predicted": predicted,
            }
        )
    )


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def started(module: str) -> tuple[float, float]:
    """Return the seconds and MB that a process needs to import a module, median of 5."""
    code = f"import {module}, resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    seconds, megabytes = [], []
    for _ in range(5):
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        seconds.append(time.perf_counter() - start)
        megabytes.append(int(done.stdout.split()[-1]) / 1e3)
    return statistics.median(seconds), statistics.median(megabytes)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Measure epochs; prints Markdown.")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train_once(json.loads(arguments.train))
        return
    rows = []
    for name, words, allowed in EPOCH_ROWS:
        found = measure(words)
        rows.append((name, f"{found['epoch']:.3f}", allowed, f"{found['first']:.1f}", f"{found['megabytes']:.0f}"))
    print(tabulate(rows, ("", "epoch, s", "allowed", "first epoch, s", "MB above TensorFlow"), tablefmt="github"))
    predicted = []
    for words in PREDICTED:
        found = measure(words)
        name = f"{words.get('model', 'hybrid')} n = {words['qubits']}, {words.get('simulator', 'auto')}"
        ratio = found["predicted"] / found["least"]
        predicted.append((name, f"{found['predicted']:.3g}", f"{found['least']:.3g}", f"{ratio:.2f}"))
    print()
    print(
        tabulate(predicted, ("", "predicted, s", "least epoch, s", "ratio"), tablefmt="github", disable_numparse=True)
    )
    budgets = []
    for gib in BUDGETS:
        found = measure({**AT_20, "options": {"simulator_memory_gib": gib}})
        budgets.append((gib, f"{found['megabytes']:.0f}", f"{found['peak']:.0f}", f"{found['epoch']:.1f}"))
    print()
    columns = ("simulator_memory_gib, 20 qubits", "MB above TensorFlow", "MB in all", "epoch of 1 + 1 steps, s")
    print(tabulate(budgets, columns, tablefmt="github"))
    starts = [(module, *(f"{value:.3g}" for value in started(module))) for module in _IMPORTS]
    print()
    print(tabulate(starts, ("imported", "s", "MB"), tablefmt="github"))


if __name__ == "__main__":
    main()
