"""Throughput and memory of predictions for files: python -m benchmarks.predict [ROWS ...].

Each measurement runs in a separate process, with a trained network on 23 qubits. Times include reading, predicting and
writing, but not loading the model. On a busy machine, CPU time is the better comparison.
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

import numpy as np
from tabulate import tabulate

from qcnn import data
from qcnn.experiment.parsing import from_mapping
from qcnn.process.library_loading import load_tensorflow
from qcnn.tables import EXTENSIONS
from qcnn.tables.table import new_table

QUBITS = 23
# Repeats for the smaller file, of which the median is printed.
ROWS, REPEATS = (10**6, 10**7), 3
_CHUNK = 10**5


def create_model(folder: Path) -> None:
    """Train a network for a few epochs and export it."""
    load_tensorflow()
    from qcnn.results import export
    from qcnn.trainer.loop import train

    config = from_mapping({"qubits": QUBITS, "rounds": 10, "epochs": 3, "strategy": "none", "workers": 1})
    train(config, data.generate(config), folder / "training")
    export.export(folder / "training", folder / "model")


def create_table(path: Path, rows: int) -> None:
    """Write a table of excitations with labels."""
    random = np.random.default_rng(0)
    with new_table(str(path)) as write:
        for _ in range(rows // _CHUNK):
            angle = random.uniform(-np.pi, np.pi, _CHUNK)
            label = data.label_of(angle.astype(np.float32))
            write({"qubit": random.integers(0, QUBITS, _CHUNK), "angle": angle, "label": label})


def predict(model: Path, table: Path, output: Path) -> list[float]:
    """Return wall-clock seconds, CPU seconds and peak memory in MB of a prediction.

    Args:
        model: Folder of the model.
        table: Table of samples.
        output: Table for the predictions.
    """
    load_tensorflow()
    from qcnn.results.batch_prediction import predict_table
    from qcnn.results.predictions import PredictionFiles
    from qcnn.results.predictor import load_predictor
    from qcnn.tables.table import open_table

    predictor = load_predictor(model)
    start, cpu_start = time.perf_counter(), time.process_time()
    with open_table(str(table)) as rows:
        predict_table(predictor, rows, PredictionFiles(str(table), str(output)), lambda more: None)
    seconds = [time.perf_counter() - start, time.process_time() - cpu_start]
    return [*seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3]


def measure(folder: Path, extension: str, rows: int) -> list[object]:
    """Return a row of the table.

    Args:
        folder: Folder of the model and the tables.
        extension: File extension of the table format.
        rows: Number of rows.
    """
    table = folder / f"data{extension}"
    create_table(table, rows)
    repeats = REPEATS if rows <= ROWS[0] else 1
    command = [sys.executable, "-m", "benchmarks.predict", "--one", str(folder / "model"), str(table)]
    results = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        for _ in range(repeats)
    ]
    seconds, cpu_seconds, memory = map(statistics.median, zip(*results, strict=True))
    return [extension[1:], rows, rows / seconds / 1e6, rows / cpu_seconds / 1e6, memory, table.stat().st_size / 1e6]


def main() -> None:
    """Print a row for each table format and number of rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--one", nargs=2, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        model, table = arguments.one
        print(json.dumps(predict(model, table, table.with_stem("output"))))
        return
    header = ["format", "rows", "million rows/s", "million rows per CPU s", "peak memory, MB", "file, MB"]
    with tempfile.TemporaryDirectory() as name:
        create_model(Path(name))
        results = [measure(Path(name), extension, rows) for rows in arguments.rows for extension in EXTENSIONS]
    print(tabulate(results, header, floatfmt=("", "", ".2f", ".2f", ".0f", ".0f")))


if __name__ == "__main__":
    main()
